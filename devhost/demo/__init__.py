"""`python -m devhost.demo`: the chatflow template run for three questions, its replies shown as in a chat."""
