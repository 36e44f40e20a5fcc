"""`make bench`: what a score costs in seconds, calls, prompt characters and memory, and what conclusions are worth."""

from benchmarks import batch, conclusions, load, speed

if __name__ == "__main__":
    speed.main()
    print("\nWhole question tables\n")
    speed.show(batch.measure())
    print("\nMany at once\n")
    speed.show(load.measure())
    print("\nConclusions\n")
    conclusions.main()
