"""The three documents whose statements the register judges, with their sections in order.

A claim names a document by number and one of its sections. The checksum pins the text that was
read, so that a later change of a document can be noticed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """One document: its number, title, the version that was read, and its sections."""

    number: str
    title: str
    version: str
    """In words; the files carry no version of their own."""
    sha256: str
    """Of the text file that was read."""
    sections: tuple[str, ...]
    """Short names of the sections, in the document's order."""


DOCUMENTS: tuple[Document, ...] = (
    Document(
        number="000",
        title="Transformer Mathematics: Attention Scaling, RoPE & Latent Projections",
        version="text file 000_13e19bc4bc490427.txt, 97 lines",
        sha256="a0a7cab763b41dc70cd1e8a68b19c042cf24e1aa1ec2d6180d8eabeb95aa8672",
        sections=(
            "1 Core Intuition",
            "2 Formulations",
            "3 Mechanism",
            "4 Code",
            "5 Checkpoint",
        ),
    ),
    Document(
        number="003",
        title="Scaled Dot-Product & Multi-Head Attention",
        version="text file 003_dd4f5cb7ff70d97b.txt, 94 lines",
        sha256="446151aa55e5aa034a91d5db7dcde5fbf6fe6428c1395ada7bc1b4030f13da94",
        sections=(
            "title",
            "1 Core Intuition",
            "2 Formulations",
            "3 Mechanism",
            "4 Code",
            "5 Checkpoint",
        ),
    ),
    Document(
        number="004",
        title="Inside Modern Attention: Positions, Normalization and Efficiency",
        version="text file 004_098a6c8c077a8b41.txt, 631 lines",
        sha256="473b08f94ac411e0eee6220d71e767fbbf3a2df4a281d8390e5794d58f30d3d2",
        sections=(
            "3.1 Why Self-Attention",
            "3.1 Core Idea",
            "3.1 Why Divide",
            "3.1 QK^T",
            "3.1 Permutation",
            "3.1 MHA",
            "3.1 KV Cache",
            "3.1 MQA",
            "3.1 GQA",
            "3.1 MLA",
            "3.2 Properties",
            "3.2 Two Families",
            "3.3 Formula",
            "3.3 Walkthrough",
            "3.3 Relative Position",
            "3.3 Simpler Encodings",
            "3.4 Absolute",
            "3.4 T5",
            "3.4 ALiBi",
            "3.5 Core Idea",
            "3.5 2D Rotation",
            "3.5 Many Dimensions",
            "3.5 Implementation",
            "3.5 Long-Term Decay",
            "3.5 Default Choice",
            "3.6 MLA Conflict",
            "3.6 Decoupled RoPE",
            "3.6 Partial RoPE",
            "3.7 Quadratic Cost",
            "3.7 Sliding Window",
            "3.7 Longformer",
            "3.7 DSA",
            "3.8 LayerNorm",
            "3.8 Post/Pre-LN",
            "3.8 RMSNorm",
            "3.9 Synthesis",
            "3.10 Quick Reference",
        ),
    ),
)


def document(number: str) -> Document:
    """The document of that number. Raises ValueError for one that isn't in the table."""
    for entry in DOCUMENTS:
        if entry.number == number:
            return entry
    known = ", ".join(entry.number for entry in DOCUMENTS)
    raise ValueError(f"no document {number!r}; there are {known}")
