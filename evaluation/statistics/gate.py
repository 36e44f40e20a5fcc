"""Whether a score or a mean reaches its threshold."""

# Where the user gave no threshold: from here on a score is good, and from here on fair.
GOOD, FAIR = 0.7, 0.5


def reaches(score: float, threshold: float) -> bool:
    """Whether a score is at its threshold or above. Sums of floats may miss it by a hair: 0.7 of (0.6 + 0.8) / 2."""
    return score >= threshold - 1e-9
