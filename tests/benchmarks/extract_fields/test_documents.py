"""What a document is: pieces, pages, and no header in its text."""

from __future__ import annotations

from extract_fields.documents import CHUNK_CHARACTERS, compose, installed, pieces


def test_pieces_keep_all_words_and_stay_short():
    """Cutting loses no word, and no piece is longer than asked."""
    text = "\n\n".join(f"Paragraph {n}. " + "word " * (n * 13 % 400) for n in range(30))
    found = list(pieces(text))
    assert max(map(len, found)) <= CHUNK_CHARACTERS
    assert " ".join(found).split() == text.split()


def test_a_text_without_any_space_is_cut_too():
    """A blob has no place to cut at, and is cut at the size."""
    assert [len(piece) for piece in pieces("x" * 2000, size=900)] == [900, 900, 200]


def test_pages_count_through_all_files(teapot):
    """Each file starts a page of its own, after the last of the file before."""
    pages = [(passage.doc_uri, passage.page) for passage in teapot.passages]
    readme = [page for uri, page in pages if uri.endswith("README")]
    (license_page,) = [page for uri, page in pages if uri.endswith("LICENSE")]
    assert readme == sorted(readme)
    assert readme[0] == 1
    assert license_page == readme[-1] + 1


def test_chunk_ids_are_unique(teapot):
    """Two passages never share an id, however many files a document has."""
    ids = [passage.chunk_id for passage in teapot.passages]
    assert len(set(ids)) == len(ids)


def test_the_header_is_not_searched():
    """What only the header says is nowhere in the text."""
    document = compose("p", [("README", "Nothing else.")], header={"author": ("Zora Quill",)})
    assert "Quill" not in document.text


def test_installed_documents_are_sorted_and_have_text():
    """The corpus comes in the order of names, each with a README, this package left out."""
    found = list(installed())
    names = [document.package.lower().replace("_", "-").replace(".", "-") for document in found]
    assert names == sorted(names)
    assert "llmeval-inprocess" not in names
    assert all(len(document.text) >= 200 for document in found)
