"""`make bench`: what a score costs in seconds, calls, prompt characters and memory."""

from benchmarks import batch, speed

if __name__ == "__main__":
    speed.main()
    print("\nWhole question tables\n")
    speed.show(batch.measure())
