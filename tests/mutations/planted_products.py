"""Mutations of the product around the models."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

PRODUCTS: list[Mutation] = []
