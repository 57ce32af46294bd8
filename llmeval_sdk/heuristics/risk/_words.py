"""English word lists, and words that tell languages apart, all written for this project."""

from __future__ import annotations


def words(listed: str) -> frozenset[str]:
    """Read words that are separated by white space."""
    return frozenset(listed.split())


STOP_WORDS = words(
    """
    a about above after again against all also although am an and another any are as at be
    because been before being below between both but by can cannot could did do does doing done
    down during each either else etc ever every few for from further get gets given had has have
    having he her here hers herself him himself his how however i if in instead into is it its
    itself just let like many may me might more most much must my myself neither no nor not now
    of off often on once one only onto or other others otherwise our ours out over own per
    perhaps quite rather same she should since so some such than that the their theirs them
    themselves then there therefore these they this those though through thus to too toward
    towards under until up upon us very via was we well were what when where whether which while
    who whom whose why will with within without would yet you your yours yourself don't doesn't
    didn't isn't aren't wasn't weren't won't can't couldn't shouldn't wouldn't it's that's
    there's here's you're they're we're i'm i've you've we've
    """
)

FUNCTION_WORDS = {
    "en": words(
        """
        the and of to is that for with was are this it by from be as at have you not or
        can your what how which when
        """
    ),
    "de": words(
        """
        der die das und ist von mit den dem nicht ein eine für auf des im zu sich auch
        wird wie werden bei oder sind was
        """
    ),
    "fr": words(
        """
        le la les des et est une dans pour que qui sur pas du avec par au sont ce il elle
        ou comment quel aux
        """
    ),
    "es": words(
        """
        el la los las y es una en que por con para del se no al como lo su más sus qué
        cuál son está
        """
    ),
    "it": words(
        """
        il lo gli e è una di che per con del della non sono si alla dei nel come le da più
        al anche
        """
    ),
    "pt": words(
        """
        o os as e é uma em que por com para do da não se dos das no na ao como mais são
        foi
        """
    ),
    "nl": words(
        """
        de het een en van is dat op te zijn met voor niet aan er door wordt ook naar hoe
        wat bij uit
        """
    ),
    "sv": words(
        """
        och att det som en på är av för med den till inte om ett var har jag de
        """
    ),
    "pl": words(
        """
        i w na z się nie do to jest że o od po jak co przez dla są lub ale
        """
    ),
    "fi": words(
        """
        ja on ei että se oli joka ovat kuin myös mutta hän sen tai mitä miten
        """
    ),
    "tr": words(
        """
        ve bir bu için ile da de çok olarak ne daha olan gibi kadar nasıl nedir
        """
    ),
}

ABBREVIATIONS = words(
    """
    dr mr mrs ms prof st vs jr sr gen col lt capt sgt rev hon gov sen rep messrs mt ft fig eq approx
    ca cf viz inc ltd corp dept univ assn bros nr bzw usw sog evtl ggf inkl abs str hr fr frl dott
    dra sra srta ing arq lic mme mlle av art op cit ed eds vol pp ch sec ver mio mrd dhr mevr bijv
    """
)
"""Words whose full stop does not end a sentence."""

MONTHS = {
    "jan": "january", "feb": "february", "mar": "march", "apr": "april", "jun": "june",
    "jul": "july", "aug": "august", "sep": "september", "sept": "september", "oct": "october",
    "nov": "november", "dec": "december",
}  # fmt: skip

_NUMBERS = """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty"""
NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(_NUMBERS.split(), start=2)
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80",
     "ninety": "90", "hundred": "100", "twice": "2", "dozen": "12"}  # fmt: skip

SCALES = {
    "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9, "b": 10**9,
}  # fmt: skip

SYMBOLS = {
    "%": "percent", "٪": "percent", "$": "dollar", "€": "euro", "£": "pound", "°": "degree",
    "¥": "yen",
}  # fmt: skip
