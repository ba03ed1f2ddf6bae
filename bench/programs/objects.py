# The Python row's program (python.py): typical work of services in Python, with PYTHONMALLOC=malloc, so that every
# object is allocated by malloc. Prints a line per part; the sums are the same in every run.
import collections
import heapq
import json
import re
import string


def documents(count):
    """JSON round trips: strings, numbers, nested lists and dicts."""
    total = 0
    document = {"id": 0, "name": "an item", "tags": ["red", "green", "blue"], "sizes": list(range(20)), "price": 12.5,
                "parts": [{"id": part, "text": "part %d of it" % part, "more": {"a": None, "b": True}} for part in range(15)]}
    for number in range(count):
        document["id"] = number
        text = json.dumps(document)
        total += len(text) + json.loads(text)["id"]
    return total


def words(count):
    """Short strings: joined, split, replaced, matched, counted."""
    letters = string.ascii_lowercase
    text = " ".join(letters[i % 26] * (i % 11 + 1) + str(i * 7919 % 10007) for i in range(count))
    counts = collections.Counter(re.findall(r"[a-z]+", text))
    pieces = [word.upper().replace("A", "aa").rjust(14) for word in text.split()]
    return len("".join(sorted(pieces))) + sum(counts.values())


def dicts(count):
    """Large dicts that grow, are merged, inverted and dropped."""
    total = 0
    for turn in range(3):
        squares = {number: str(number * number) for number in range(count)}
        turned = {text: number for number, text in squares.items()}
        total += len(squares | {-1: ""}) + sum(turned[text] for text in list(turned)[:1000]) + turn
    return total


class Node:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None


def trees(count):
    """Objects that point to each other: a search tree, grown and dropped."""
    total = 0
    for seed in range(3):
        root, key = Node(count // 2), seed
        for _ in range(count):
            key = (key * 1103515245 + 12345) & 0x7FFFFFFF
            node = root
            while True:
                side = "left" if key < node.key else "right"
                below = getattr(node, side)
                if below is None:
                    setattr(node, side, Node(key))
                    break
                node = below
        total += root.right.key & 1023
    return total


def events(count):
    """A queue of tuples, and lists that grow to all lengths."""
    queue = [(i * 7919 % 10007, i, str(i)) for i in range(1000)]
    heapq.heapify(queue)
    log = collections.defaultdict(list)
    for number in range(count):
        when, _, name = heapq.heappop(queue)
        log[when % 97].append((name, [when] * (number % 30)))
        heapq.heappush(queue, (when + 1 + number * 31 % 511, number, name + "x" if len(name) < 50 else "y"))
        if number % 20_000 == 0:
            log.clear()
    return sum(map(len, log.values()))


for part, count in ((documents, 30_000), (words, 500_000), (dicts, 500_000), (trees, 100_000), (events, 800_000)):
    print(part.__name__, part(count))
