"""Counting words."""
from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(source_str: str, token_delim: str = " ", seq_delim: str = "\n",
                          to_lower: bool = False,
                          counter_to_update: Counter[str] | None = None) -> Counter[str]:
    """How often each word occurs.

    Args:
        source_str: the text.
        token_delim, seq_delim: regular expressions of what stands between words and between lines.
        to_lower: count words in small letters.
        counter_to_update: add to these counts, in place; None: begin anew.

    >>> sorted(count_tokens_from_str("Life is great\\nlife is good", to_lower=True).items())
    [('good', 1), ('great', 1), ('is', 2), ('life', 2)]
    """
    if to_lower:
        source_str = source_str.lower()
    counts: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    counts.update(filter(None, re.split(f"{token_delim}|{seq_delim}", source_str)))
    return counts
