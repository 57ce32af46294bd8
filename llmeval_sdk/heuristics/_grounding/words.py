"""The words and signs that numbers, dates, money and units are written with."""
# ruff: noqa: SIM905 - lists of words read best as text

from __future__ import annotations


_UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()

NUMBER_WORDS: dict[str, int] = {
    **{word: value for value, word in enumerate(_UNITS)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
}

SCALES = {
    "hundred": 1e2, "thousand": 1e3, "million": 1e6, "millions": 1e6, "billion": 1e9,
    "billions": 1e9, "trillion": 1e12, "lakh": 1e5, "lakhs": 1e5, "crore": 1e7, "crores": 1e7,
    "mn": 1e6, "mio": 1e6, "bn": 1e9, "tn": 1e12,
}  # fmt: skip
"""Words that multiply the number before them."""

MONEY_SCALES = {"k": 1e3, "m": 1e6, "b": 1e9}
"""Letters that multiply a number too, but only beside a currency."""

ORDINALS: dict[str, int] = {
    word: value
    for value, word in enumerate(
        """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
        thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
        twentieth""".split(),
        1,
    )
}
ORDINALS["thirtieth"] = 30

ORDINAL_ENDINGS = frozenset(("st", "nd", "rd", "th"))

_MONTHS = (  # English, German, French, Spanish, Italian, Portuguese, Dutch, Malay
    "january jan januar janvier enero ene gennaio gen janeiro januari janner",
    "february feb februar fevrier fevr febrero febbraio fevereiro fev februari febr",
    "march mar marz mars marzo marco maart mac mrt maerz",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag maio mei",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho julai",
    "august aug aout agosto ago augustus ogos",
    "september sep sept septembre septiembre settembre set setembro",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez decembre diciembre dic dicembre dezembro disember dis",
)
MONTHS: dict[str, int] = {
    word: month for month, words in enumerate(_MONTHS, 1) for word in words.split()
}
"""Names of the months, folded, and their abbreviations."""

WEEKDAYS = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri
    sat sun""".split()
)

DATE_FILLERS = frozenset(
    "on as of the dated date effective from by until at and day t z utc gmt 日 일".split()
)
"""Words that may stand beside a date and belong to it."""

AMOUNT_FILLERS = frozenset("approximately approx about circa ca around only just and".split())

CURRENCIES: dict[str, str] = {
    "$": "$", "dollar": "$", "dollars": "$", "us$": "USD", "usd": "USD", "a$": "AUD", "aud": "AUD",
    "c$": "CAD", "cad": "CAD", "s$": "SGD", "sgd": "SGD", "hk$": "HKD", "hkd": "HKD", "nzd": "NZD",
    "r$": "BRL", "brl": "BRL", "mxn": "MXN",
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR",
    "£": "GBP", "gbp": "GBP", "pound": "GBP", "pounds": "GBP", "sterling": "GBP",
    "¥": "¥", "jpy": "JPY", "yen": "JPY", "cny": "CNY", "rmb": "CNY", "yuan": "CNY", "円": "JPY",
    "元": "CNY",
    "₹": "INR", "rs": "INR", "inr": "INR", "rupee": "INR", "rupees": "INR",
    "rm": "MYR", "myr": "MYR", "ringgit": "MYR", "rp": "IDR", "idr": "IDR", "₱": "PHP",
    "thb": "THB", "฿": "THB", "vnd": "VND", "₫": "VND", "krw": "KRW", "₩": "KRW",
    "chf": "CHF", "francs": "CHF", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "kr": "kr",
    "pln": "PLN", "zł": "PLN", "zl": "PLN", "czk": "CZK", "huf": "HUF", "rub": "RUB", "₽": "RUB",
    "₺": "TRY", "uah": "UAH", "₴": "UAH", "ils": "ILS", "₪": "ILS", "aed": "AED",
    "sar": "SAR", "zar": "ZAR", "ngn": "NGN", "₦": "NGN",
}  # fmt: skip
"""The currency code of each folded sign, code and word. A sign that several share stays a sign."""

SHARED_SIGNS = {
    "$": frozenset("USD AUD CAD SGD HKD NZD MXN".split()),
    "¥": frozenset(("JPY", "CNY")),
    "kr": frozenset(("SEK", "NOK", "DKK")),
}

_SAME = {
    ("percent", 1.0): "% percent pct percents percentage",
    ("percent", 0.01): "bps bp",
    ("months", 1.0): "month months mo mos mth mths",
    ("months", 3.0): "quarter quarters",
    ("months", 12.0): "year years yr yrs annum",
    ("days", 1.0): "day days",
    ("days", 7.0): "week weeks wk wks",
    ("days", 14.0): "fortnight fortnights",
    ("seconds", 1.0): "second seconds sec secs",
    ("seconds", 60.0): "minute minutes min mins",
    ("seconds", 3600.0): "hour hours hr hrs",
    ("grams", 1.0): "g gram grams gm gms",
    ("grams", 0.001): "mg milligram milligrams",
    ("grams", 1000.0): "kg kgs kilogram kilograms kilo kilos",
    ("grams", 1e6): "tonne tonnes",
    ("pounds", 1.0): "lb lbs",
    ("pounds", 1 / 16): "oz ounce ounces",
    ("metres", 1.0): "m metre metres meter meters",
    ("metres", 0.01): "cm centimetre centimetres centimeter centimeters",
    ("metres", 0.001): "mm millimetre millimetres millimeter millimeters",
    ("metres", 1000.0): "km kms kilometre kilometres kilometer kilometers",
    ("feet", 1.0): "ft foot feet",
    ("feet", 1 / 12): "inch inches",
    ("feet", 3.0): "yard yards",
    ("feet", 5280.0): "mile miles",
    ("litres", 1.0): "l litre litres liter liters ltr",
    ("litres", 0.001): "ml millilitre millilitres milliliter milliliters",
    ("square metres", 1.0): "sqm m2 m²",
    ("square metres", 10_000.0): "hectare hectares",
    ("square feet", 1.0): "sqft ft2 ft²",
    ("square feet", 43_560.0): "acre acres",
    ("bytes", 1e3): "kb",
    ("bytes", 1e6): "mb",
    ("bytes", 1e9): "gb",
    ("bytes", 1e12): "tb",
    ("watts", 1.0): "w watt watts",
    ("watts", 1e3): "kw",
    ("watts", 1e6): "mw",
}
MEASURES: dict[str, tuple[str, float]] = {
    word: measure for measure, words in _SAME.items() for word in words.split()
}
"""What each unit measures, and how much of that one unit is."""

BETWEEN = frozenset("calendar consecutive successive full business working additional".split())
"""Words that may stand between a number and its unit."""
