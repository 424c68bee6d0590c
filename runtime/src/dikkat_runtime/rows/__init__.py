"""Read and write rows of tables, JSON lines and Parquet files; detect dialects, pack files, lock folders."""
