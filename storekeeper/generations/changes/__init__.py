"""Changes of stores as data: what is declared, what runs, how they differ, and whether two contents agree."""
