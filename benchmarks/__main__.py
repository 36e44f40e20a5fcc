"""`make bench`: what a score costs in seconds, calls, prompt characters and memory."""

from benchmarks.speed import main

if __name__ == "__main__":
    main()
