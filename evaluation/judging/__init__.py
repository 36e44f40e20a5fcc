"""Asking a judge: a prompt and data in, a reply of the right shape out, in time."""
