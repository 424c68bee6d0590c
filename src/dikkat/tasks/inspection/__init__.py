"""Trained models looked into: attention, heads, reports, pages, the doctor."""
