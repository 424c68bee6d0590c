"""Check claims about any model of this package: each is named, with the violation that was measured."""

from dikkat.explain.doctor.examination import CLAIMS, Claim, Proof, examine

__all__ = ["CLAIMS", "Claim", "Proof", "examine"]
