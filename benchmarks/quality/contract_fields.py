"""What apps ask of contracts: names, descriptions and questions of fields, for each split its own.

Below the key of a field stand, for either split, the name with the description, and the questions.
"""

from __future__ import annotations

from dataclasses import dataclass


_FIELDS = """
document_name
document_name; Title of the contract
What is this contract called? / State the title of the agreement.
agreement_type; The kind of agreement by its title
What type of agreement is this? / How is the document titled?

parties
parties; The two or more parties who signed the contract
Who are the parties to this contract? / Name the parties that signed the agreement.
contracting_parties; All companies that entered into it
Which companies entered into this? / Between whom was it made?

agreement_date
agreement_date; The date of the contract
What is the date of the contract? / On what date was the agreement made?
date_of_agreement; Date on which it was made
When was this dated? / Which date was the document signed or made?

effective_date
effective_date; The date when the contract is effective
When does the contract become effective? / What is the effective date?
effectiveDate; First day on which it is in effect
As of which day is it effective? / From when is it in effect?

expiration_date
expiration_date; On what date the contract's initial term expires
On what date will the initial term expire? / What is the expiration date?
expiry_date; Date or event on which it ends
When does it expire? / Until when does it last?

initial_term
initial_term; Length of the first term
How long is the initial term? / What is the initial term of the agreement?
length_of_initial_period; How long it first lasts
How long does it first last? / What is the duration of the initial period?

renewal_term
renewal_term; The renewal term after the initial term expires
What is the renewal term after the initial term expires? / For how long is it renewed?
renewalPeriod; Length of each extension
By how much is it extended? / How long is each renewal?

notice_period
notice_period_to_terminate_renewal; The notice required to terminate renewal
What notice is required to terminate renewal? / How early must non-renewal be announced?
non_renewal_notice; Notice that prevents a renewal
How much notice prevents a renewal? / What is the non-renewal notice?

convenience_notice
termination_for_convenience_notice; The notice to terminate without cause
With what notice can it be terminated without cause? / How much notice to terminate at will?
convenience_termination; Notice of a termination without any reason
How long is the notice of a termination at convenience? / Can one terminate at will, and how?

cure_period
cure_period; Time to cure a material breach
How long may a breach be cured? / What is the cure period?
cureDays; Time given to remedy a default
How much time is there to remedy a default? / How long is the time to cure?

payment_terms
payment_terms; Time within which invoices are paid
Within what time must invoices be paid? / What are the payment terms?
due_within; Days until a bill is due
When are bills due? / How many days are given to pay?

governing_law
governing_law; Which state's law governs the interpretation of the contract
Which state's law governs the contract? / What is the governing law?
choice_of_law; State whose law applies
Whose law applies? / What is the choice of law?

liability_cap
cap_on_liability; The cap on liability upon a breach of a party's obligations
Is there a cap on liability? / What is the maximum liability?
liability_limit; Highest sum for which one is liable
To which sum is liability limited? / What is the most that one is liable for?

insurance
insurance; The insurance that a party must maintain
What insurance must be maintained? / How much insurance coverage is required?
required_coverage; Limits of the required insurance
What coverage is required? / How high are the limits of insurance?

warranty_duration
warranty_duration; The duration of any warranty against defects or errors
What is the duration of the warranty? / How long is the warranty?
warrantyPeriod; Time for which defects are covered
For how long is it warranted? / When does coverage of defects end?

minimum_commitment
minimum_commitment; The minimum amount that one party must buy
What is the minimum commitment? / How much must be purchased at least?
annual_minimum; Least amount to be bought each year
What must be bought each year? / How high is the annual minimum?

revenue_share
revenue_profit_sharing; The share of revenue one party pays the other
What share of revenue is paid? / How is revenue shared?
royalty_rate; Percentage of sales or receipts that is owed
Which percentage is owed? / How high is the royalty?

audit_rights
audit_rights; The right to audit the books, records or premises of the other party
Does a party have the right to audit the other? / What are the audit rights?
audit_provision; Whether and how accounts may be audited
Who may inspect accounts? / May books be audited?

exclusivity
exclusivity; Exclusive dealing, or a promise not to compete
Is there an exclusivity clause? / What exclusive rights are granted?
exclusive_dealing; Whether anyone deals exclusively
Must one deal with the other exclusively? / Are any rights exclusive?
"""


@dataclass(frozen=True)
class Asked:
    """How the apps of one split ask for a field."""

    name: str
    description: str
    questions: tuple[str, ...]


def _asked(text: str) -> dict[str, dict[str, Asked]]:
    made: dict[str, dict[str, Asked]] = {"train": {}, "apart": {}}
    for part in text.strip().split("\n\n"):
        key, *lines = part.splitlines()
        for split, named, questions in (("train", *lines[:2]), ("apart", *lines[2:])):
            name, description = named.split("; ", 1)
            made[split][key] = Asked(name, description, tuple(questions.split(" / ")))
    return made


ASKED = _asked(_FIELDS)
"""Split -> key of a clause's value -> how it is asked for."""
