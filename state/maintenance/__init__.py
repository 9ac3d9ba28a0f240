"""Looking after stores: deleting what is too old and bringing it back, proving that copies agree, watching growth."""
