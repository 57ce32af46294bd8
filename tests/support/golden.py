"""Rows of a small golden set."""


def golden(count=6):
    """Make rows of which every third is answered wrongly and has the wrong document."""
    return [
        {
            "request_id": f"q{n}",
            "request": f"What is roof {n} made of?",
            "response": "gold" if n % 3 == 0 else f"slate {n}",
            "expected_response": f"slate {n}",
            "retrieved_context": [{"content": f"Roof {n} is slate {n}.", "doc_uri": f"d{n}"}],
            "expected_retrieved_context": [{"doc_uri": "other" if n % 3 == 0 else f"d{n}"}],
        }
        for n in range(count)
    ]
