"""Changes of stores as data: what is declared, what runs, what lies between them, and whether two contents agree."""
