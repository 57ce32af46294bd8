"""What a page of the viewer holds: its text as people read it, and its markup."""

import html
import re
from html.parser import HTMLParser


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", " ", page.text))


class Tags(HTMLParser):
    """Collects what markup a page really has."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.links = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name in ("href", "src", "action")}
