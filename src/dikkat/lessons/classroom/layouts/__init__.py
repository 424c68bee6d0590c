"""Reversible tables of the names under which the classes of the source documents keep their weights."""
