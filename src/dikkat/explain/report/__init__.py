"""A run as one HTML file: the report of a finished run, and the page that follows a running one."""
