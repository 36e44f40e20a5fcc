"""What is concluded from many scores: how often intervals hold the true mean, and how often a sign is a false one.

    python -m benchmarks.conclusions [--samples 2000] [--comparisons 400]

Scores are drawn with known true means. No model and no plugin is asked.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import sqrt

import numpy as np
import numpy.typing as npt

from evaluation.statistics.comparison import Pairs, compare_metrics
from evaluation.statistics.intervals import mean_interval, student, wilson

Scores = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Scores]
Method = Callable[[Sequence[float]], tuple[float, float]]

SEED = 8
SIZES = (3, 5, 10, 20, 50)
QUESTIONS = (6, 8, 10, 12, 15, 20)
RESAMPLES = 1000
# The share of intervals that are to hold the true mean, and of false signs that are bearable.
LEAST_COVERAGE, MOST_FALSE = 0.92, 0.05


def _parts(*parts: tuple[float, Draw]) -> Draw:
    """Scores of which each is drawn from one of the parts, by their shares."""

    def draw(generator: np.random.Generator, size: tuple[int, int]) -> Scores:
        which = generator.choice(len(parts), size=size, p=[share for share, _ in parts])
        return np.choose(which, [of(generator, size) for _, of in parts])

    return draw


def _always(score: float) -> Draw:
    return lambda _, size: np.full(size, score)


def _anything(generator: np.random.Generator, size: tuple[int, int]) -> Scores:
    return generator.random(size)


def _beta(generator: np.random.Generator, size: tuple[int, int]) -> Scores:
    return generator.beta(18, 2, size)


# The usual shapes of scores, and their true means.
POPULATIONS: Mapping[str, tuple[Draw, float]] = {
    "80 % ones, else uniform": (_parts((0.8, _always(1.0)), (0.2, _anything)), 0.9),
    "90 % ones, else 0": (_parts((0.9, _always(1.0)), (0.1, _always(0.0))), 0.9),
    "half ones, half 0": (_parts((0.5, _always(1.0)), (0.5, _always(0.0))), 0.5),
    "beta(18, 2)": (_beta, 0.9),
    "a third 0, uniform, 1": (_parts((1 / 3, _always(0.0)), (1 / 3, _anything), (1 / 3, _always(1.0))), 0.5),
    "0, 1/3, 2/3 and 1": (_parts(*((1 / 4, _always(score / 3)) for score in range(4))), 0.5),
}


def ours(values: Sequence[float]) -> tuple[float, float]:
    """The interval that reports show."""
    found = mean_interval(values)
    return found.low, found.high


def by_t(values: Sequence[float]) -> tuple[float, float]:
    """Student's t, cut to 0 and 1."""
    half = student(len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))
    mean = float(np.mean(values))
    return max(0.0, mean - half), min(1.0, mean + half)


def by_bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """The percentile bootstrap, which reports showed before."""
    data = np.asarray(values)
    drawn = np.random.default_rng(SEED).integers(0, len(data), size=(RESAMPLES, len(data)))
    low, high = np.quantile(data[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def by_wilson(values: Sequence[float]) -> tuple[float, float]:
    """Wilson, with the sum of the scores as successes."""
    return wilson(float(np.mean(values)), len(values), student(1e6))


METHODS: Mapping[str, Method] = {"ours": ours, "t": by_t, "bootstrap": by_bootstrap, "Wilson": by_wilson}


def coverage(method: Method, draw: Draw, mean: float, size: int, samples: int) -> tuple[float, float]:
    """The share of samples whose interval holds the true mean, and the mean width of the intervals."""
    drawn = draw(np.random.default_rng(SEED), (samples, size)).tolist()
    ends = np.asarray([method(values) for values in drawn])
    # A mean that is hit to a hair is held.
    held = (ends[:, 0] <= mean + 1e-9) & (ends[:, 1] >= mean - 1e-9)
    return float(held.mean()), float((ends[:, 1] - ends[:, 0]).mean())


def comparisons(draw: Draw, questions: int, metrics: int, count: int) -> Iterator[dict[str, Pairs]]:
    """Pairs of runs between which nothing has changed: each question's scores come from the same place."""
    generator = np.random.default_rng(SEED)
    for _ in range(count):
        gains = draw(generator, (metrics, questions)) - draw(generator, (metrics, questions))
        yield {f"metric {place}": Pairs([[gain] for gain in of]) for place, of in enumerate(gains.tolist())}


def sign_by_test(pairs: Mapping[str, Pairs]) -> bool:
    """Whether any metric is called better or worse."""
    return any(found.sign != "no_clear_difference" for found in compare_metrics(pairs).values())


def sign_by_bootstrap(pairs: Mapping[str, Pairs]) -> bool:
    """The same as it was before: 0 outside the bootstrap interval of any metric."""
    ends = [by_bootstrap([gain for (gain,) in of.gains]) for of in pairs.values()]
    return any(low > 0 or high < 0 for low, high in ends)


def false_signs(
    sign: Callable[[Mapping[str, Pairs]], bool], draw: Draw, questions: int, metrics: int, count: int
) -> float:
    """The share of comparisons in which a sign is given although nothing has changed."""
    return sum(sign(pairs) for pairs in comparisons(draw, questions, metrics, count)) / count


def show_coverage(samples: int) -> None:
    """Prints the share of intervals that hold the true mean, in per cent, and their width."""
    print(f"95 % intervals of a mean, {samples:,} samples each: % that hold the true mean / width; ! below 92 %\n")
    print(" " * 38 + "".join(f"n = {size}".ljust(14) for size in SIZES).rstrip())
    for name, (draw, mean) in POPULATIONS.items():
        for place, (method_name, method) in enumerate(METHODS.items()):
            found = [coverage(method, draw, mean, size, samples) for size in SIZES]
            cells = [f"{100 * held:5.1f}{_mark(held < LEAST_COVERAGE)} / {width:.2f}" for held, width in found]
            print(_line(name if place == 0 else "", method_name, cells, 14))


def show_false_signs(count: int) -> None:
    """Prints how often a run is called better or worse although nothing has changed, in per cent."""
    bearable = MOST_FALSE + 2 * sqrt(MOST_FALSE * (1 - MOST_FALSE) / count)
    print(f"\n\nFalse signs, {count:,} comparisons each, in %; ! above 5 % by more than chance\n")
    print(" " * 38 + "".join(f"n = {questions}".ljust(9) for questions in QUESTIONS).rstrip())
    signs = (("ours", sign_by_test), ("bootstrap", sign_by_bootstrap))
    for name, (draw, _) in POPULATIONS.items():
        for place, (metrics, (sign_name, sign)) in enumerate(product((1, 4), signs)):
            shares = [false_signs(sign, draw, questions, metrics, count) for questions in QUESTIONS]
            cells = [f"{100 * share:5.1f}{_mark(share > bearable)}" for share in shares]
            print(_line(name if place == 0 else "", f"{sign_name}, {metrics}", cells, 9))


def _mark(missed: bool) -> str:
    return "!" if missed else " "


def _line(name: str, method: str, cells: Sequence[str], width: int) -> str:
    return f"{name:25}{method:13}{''.join(cell.ljust(width) for cell in cells)}".rstrip()


def main(samples: int = 2000, count: int = 400) -> None:
    """Prints both tables."""
    show_coverage(samples)
    show_false_signs(count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--comparisons", type=int, default=400)
    arguments = parser.parse_args()
    main(arguments.samples, arguments.comparisons)
