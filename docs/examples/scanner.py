"""Scans messages with the extension module scanner_native, which forgets its buffers: the leak of docs/python.md."""
import time

import scanner_native


def read_message(number):
    return f"message {number}: " + "free shipping " * 200


def is_spam(message):
    return scanner_native.words(message) > 300


print("ready", flush=True)
number = 0
while True:
    for _ in range(10):
        is_spam(read_message(number := number + 1))
    time.sleep(0.01)
