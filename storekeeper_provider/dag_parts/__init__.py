"""What Storekeeper's own DAG files are made of: operators, params, and the names of a platform for their forms."""
