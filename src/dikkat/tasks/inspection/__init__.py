"""Inspect trained models: attention, heads, reports, pages and the doctor."""
