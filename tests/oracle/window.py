"""StreamingLLM (arXiv 2309.17453, 3.2): the first tokens and the last W.

Deviation: there keys are rotated anew by their place in the cache; here they
keep the positions of the text, so that pages can be shared.
"""

from substrate import Chosen, Row


def choose(row: Row, p: dict, unlike: str = "") -> Chosen:
    """recent counts the row's own token."""
    recent = p.get("recent", 2044) + (unlike == "own_token_besides")
    kept = [
        t
        for t in range(row.context)
        if t < p.get("sink", 4) or t >= row.context - recent
    ]
    return Chosen(1, [kept] * (len(row.q) // row.group))
