"""The check digits of numbers that name a person or an account."""

from __future__ import annotations

from collections import Counter

_DOUBLED = tuple(sum(divmod(2 * digit, 10)) for digit in range(10))
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_LETTERS_AS_NUMBERS = {ord("A") + place: str(10 + place) for place in range(26)}
IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28,
    "IE": 22, "IL": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MT": 31, "NL": 18, "NO": 15, "PK": 24,
    "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "XK": 20,
}  # fmt: skip
"""Characters of an account number by its country, as the SWIFT registry has them."""


def luhn(digits: str) -> bool:
    """Whether the last digit is the Luhn check digit of the others (ISO/IEC 7812).

    >>> luhn("4111111111111111"), luhn("4111111111111112")
    (True, False)
    """
    values = [int(digit) for digit in reversed(digits)]
    return (sum(values[::2]) + sum(_DOUBLED[value] for value in values[1::2])) % 10 == 0


def card_number(digits: str) -> bool:
    """Return whether digits are a card number: issuer prefix, length and Luhn digit."""
    size = len(digits)
    issued = (
        (digits[0] == "4" and size in (13, 16, 19))
        or (digits[0] == "5" and size == 16 and digits[1] in "012345678")
        or (digits[0] == "6" and size in (16, 19))
        or (digits[0] == "2" and size == 16 and "2221" <= digits[:4] <= "2720")
        or (digits[:2] in ("34", "37") and size == 15)
        or (digits[:2] in ("30", "36", "38", "39") and size == 14)
        or (digits[:2] == "35" and size == 16)
    )
    return issued and luhn(digits)


def iban(compact: str) -> bool:
    """Return whether a compact IBAN has its country's length and check digits."""
    if len(compact) != IBAN_LENGTHS.get(compact[:2]):
        return False
    return int((compact[4:] + compact[:4]).translate(_LETTERS_AS_NUMBERS)) % 97 == 1


def german_tax_id(digits: str) -> bool:
    """Whether eleven digits are a German tax id.

    One digit occurs two or three times among the first ten, the others once at most; the last is the check
    digit by ISO 7064 MOD 11,10.
    """
    counts = sorted(Counter(digits[:10]).values())
    if digits[0] == "0" or counts[-1] not in (2, 3) or (len(counts) > 1 and counts[-2] > 1):
        return False
    product = 10
    for digit in digits[:10]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def spanish_id(compact: str) -> bool:
    """Return whether the check letter of a Spanish DNI or NIE is valid."""
    number = compact[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return _DNI_LETTERS[int(number) % 23] == compact[-1]


def french_id(digits: str) -> bool:
    """Return whether fifteen digits are a French social security number with its key."""
    return 97 - int(digits[:13]) % 97 == int(digits[13:])
