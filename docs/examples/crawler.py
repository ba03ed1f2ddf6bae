"""A crawler that keeps a record of each page: the leak of docs/python.md. The pages end, and its list of rules stays."""
import time


class Frontier:
    def __init__(self):
        self.seen = {}

    def add(self, page, link):
        url = f"https://shop.example/{page}/{link}/reviews/newest"
        if url not in self.seen:
            self.seen[url] = url.split("/")


def fetch(url):
    return url.encode() * 500


def crawl(frontier, number):
    page = fetch(f"https://shop.example/{number}/{number * 7}/{number * 13}")
    for link in range(len(page) % 7 + 20):
        frontier.add(number, link)


def load_rules():
    return [f"Disallow: /private/{number}/*" for number in range(100_000)]


rules = load_rules()
frontier = Frontier()
print("ready", flush=True)
number = 0
while rules:
    for _ in range(10):
        crawl(frontier, number := number + 1)
    time.sleep(0.05)
