"""The words of the generated contracts: clauses in many wordings, companies, people, places.

They were written for the measurement alone. The two splits share no wording, company, person or
kind of contract. A clause stands under its key, its wordings apart by an empty line; ``{key}`` is
where a value goes, and a sentence that begins with ``*`` is itself the value of its clause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ContractWords:
    """What the contracts of one split are written with."""

    clauses: dict[str, tuple[str, ...]]
    titles: dict[str, tuple[str, ...]]
    """Key of a clause -> headings that its article may have."""
    kinds: tuple[tuple[str, str, str, str], ...]
    """Title, the roles of both parties, and what the contract is about."""
    companies: tuple[str, ...]
    people: tuple[str, ...]
    places: tuple[str, ...]


_TRAIN_CLAUSES = """
[preamble]
This {title} (this "Agreement") is entered into as of {agreement_date} by and between {A}, {ad}
("{a}"), and {B}, {bd} ("{b}").

THIS {TITLE} is made {agreement_date}, between {A}, {ad} (hereinafter referred to as "{a}"), and
{B}, {bd} (hereinafter referred to as "{b}").

This {title} ("Agreement"), dated {agreement_date}, is by and between {A} ("{a}"), {ad}, and {B}
("{b}"), {bd}. {a} and {b} are each a "Party" and together the "Parties".

AGREEMENT made and entered into {agreement_date}, by {A}, {ad} (the "{a}"), on the one hand, and
{B}, {bd} (the "{b}"), on the other hand.

The parties to this {title} (the "Agreement"), signed {agreement_date}, are: {A}, {ad} ("{a}"); and
{B}, {bd} ("{b}").

[preamble_effective]
This {title} (this "Agreement") is entered into as of {effective_date} (the "Effective Date") by
and between {A}, {ad} ("{a}"), and {B}, {bd} ("{b}").

THIS {TITLE}, effective {effective_date} (the "Effective Date"), is made by and between {A}, {ad}
(hereinafter "{a}"), and {B}, {bd} (hereinafter "{b}").

This {title} is made by and between {A} ("{a}"), {ad}, and {B} ("{b}"), {bd}, and shall be
effective as of {effective_date} ("Effective Date").

{A}, {ad} ("{a}") and {B}, {bd} ("{b}") enter into this {title} on {effective_date} (such date, the
"Effective Date").

This {title}, including the exhibits attached hereto, is between {A}, {ad} (the "{a}") and {B},
{bd} (the "{b}"). The Effective Date of this Agreement is {effective_date}.

[effective]
This Agreement shall become effective on {effective_date} (the "Effective Date").

The rights granted herein shall begin on {effective_date} (the "Effective Date"), notwithstanding
the date on which the Parties have signed.

"Effective Date" means {effective_date}.

The obligations of the Parties shall commence {effective_date}, which date shall be the Effective
Date for all purposes of this Agreement.

Regardless of when it is executed, this Agreement takes effect as of {effective_date}.

[initial]
This Agreement shall commence on the Effective Date and shall remain in force for an initial term
of {initial_term} (the "Initial Term"), unless sooner terminated as provided herein.

The initial term of this Agreement is {initial_term} from the Effective Date.

Unless earlier terminated in accordance with this Article, this Agreement shall continue in full
force and effect for a period of {initial_term} following the Effective Date.

The term of this Agreement shall be {initial_term}, beginning on the date first written above.

{a} engages {b} for {initial_term} from the Effective Date (the "Initial Term").

[dated]
This Agreement shall expire on {expiration_date}, unless sooner terminated as provided herein.

The term of this Agreement begins on the Effective Date and ends on {expiration_date} (the
"Expiration Date").

Unless earlier terminated under this Article, this Agreement shall remain in effect through
{expiration_date}.

This Agreement shall be in force until {expiration_date}, at which time all rights granted to {b}
shall lapse.

The term hereof shall run from the date first above written to and including {expiration_date}.

[renewal]
Thereafter, this Agreement shall automatically renew for successive {renewal_term} periods unless
either party gives written notice of non-renewal at least {notice_period} prior to the end of the
then-current term.

This Agreement shall be extended for additional terms of {renewal_term} each, unless one party
notifies the other in writing of its intention not to renew not less than {notice_period} before
the expiration of the term then in effect.

Upon expiry, the Agreement will renew itself for a further {renewal_term} unless terminated by
either Party upon {notice_period}' written notice given before the renewal date.

The term will be renewed automatically for {renewal_term} at a time. A Party that does not wish
the renewal shall say so in writing no later than {notice_period} prior to the date of renewal.

{b} may renew this Agreement for one additional period of {renewal_term} by written notice to {a}
delivered {notice_period} or more before the last day of the term.

[termination]
*Either party may terminate this Agreement for any reason upon {convenience_notice}' prior written
notice to the other party.

*{a} may terminate this Agreement without cause by giving {b} {convenience_notice}' notice in
writing.

*This Agreement may be terminated by {b} at its convenience upon {convenience_notice}' written
notice.

*Notwithstanding anything to the contrary, {a} shall be entitled to end this Agreement at any time
on {convenience_notice}' notice and without liability to {b}.

*Each Party has the right to cancel this Agreement at will, provided that it gives the other
{convenience_notice} advance notice.

[cure]
Either party may terminate this Agreement if the other party materially breaches it and fails to
cure such breach within {cure_period} after receipt of written notice thereof.

In the event of a default, the defaulting Party shall have {cure_period} from the date of notice to
remedy the default, failing which the other Party may terminate forthwith.

A material breach that is not corrected within {cure_period} of notice shall entitle the
non-breaching party to terminate this Agreement immediately.

If {b} fails to perform any covenant hereof and such failure continues for {cure_period} after
written notice, {a} may declare this Agreement at an end.

Should a Party be in breach, the other shall notify it, and the former may cure the breach during
the {cure_period} that follow.

[payment]
{b} shall pay all undisputed invoices within {payment_terms} after receipt. Late payments shall
bear interest at the rate of {late_interest} per month.

Invoices are due {payment_terms} from the invoice date. Amounts past due accrue interest at
{late_interest} per month or the highest lawful rate, whichever is less.

Payment terms are net {payment_terms}. A service charge of {late_interest} per month applies to
overdue balances.

All fees are payable in United States dollars no later than {payment_terms} following the date of
invoice. {a} may charge {late_interest} per month on any late amount.

{a} shall invoice {b} monthly, and {b} shall remit payment within {payment_terms}. Interest of
{late_interest} per month is due on sums not paid on time.

[royalty]
In consideration of the rights granted, {b} shall pay {a} a royalty equal to {revenue_share} of Net
Sales, within forty-five (45) days after the end of each calendar quarter.

{b} shall pay to {a} {revenue_share} of all Gross Revenue received from customers.

As compensation, {a} will receive {revenue_share} of the Net Revenues derived from the {product}.

The Parties shall share revenue such that {a} is entitled to {revenue_share} thereof.

A commission of {revenue_share} of Net Sales shall be due to {a} on each order accepted.

[minimum]
During each contract year, {b} shall purchase {product} for an aggregate price of not less than
{minimum_commitment}.

{b} commits to a minimum annual purchase of {minimum_commitment}. Failing this, {a} may convert the
rights hereunder to non-exclusive rights.

The minimum amount payable by {b} in any year of the term shall be {minimum_commitment}.

{b} guarantees that orders in each twelve-month period will total at least {minimum_commitment}.

To retain its rights, {b} must achieve minimum sales of {minimum_commitment} per calendar year.

[audit]
*{a} shall have the right, upon reasonable notice and not more than once per year, to inspect and
audit the books and records of {b} relating to this Agreement. Such records shall be kept for
{records_period} after the end of the term.

{b} shall maintain complete books of account for at least {records_period}. *{a} or its certified
public accountant may examine such books during normal business hours to verify the amounts due.

*Upon ten (10) days notice, {a} may cause an independent auditor to review all records of {b} that
pertain to payments. Records are to be preserved for {records_period}.

*During the term and for {records_period} thereafter, {a}'s representatives may audit {b}'s
accounts at {a}'s expense.

*{b} will permit {a} to have an audit performed of its facilities and records in order to confirm
compliance. {b} retains the documents for {records_period}.

[exclusivity]
*{a} hereby appoints {b} as its exclusive distributor of the {product} in the Territory, and {b}
accepts such appointment.

*Subject to the terms hereof, {a} grants {b} an exclusive, non-transferable right to market the
{product} within the Territory.

*During the term, {b} shall not sell or promote any goods that compete with the {product}.

*{a} agrees that it will not appoint any other person to deal in the {product} in the Territory.

*The rights granted to {b} under this Section are exclusive, even as to {a}.

[nonexclusive]
{a} grants to {b} the right to use the {product} as set out in Exhibit A, and {b} accepts it.

{a} appoints {b} to perform the duties described in Exhibit A in respect of the {product}.

{b} will be supplied with the {product} on the terms of this Agreement and its exhibits.

The Parties wish to cooperate with regard to the {product} as described below.

{a} shall make available to {b} the {product} listed in Schedule 1.

[cap]
EXCEPT FOR OBLIGATIONS OF INDEMNITY, THE TOTAL LIABILITY OF {a} UNDER THIS AGREEMENT SHALL NOT
EXCEED {liability_cap}. In no event shall either party be liable for consequential damages.

In no event shall either party's aggregate liability arising out of this Agreement exceed
{liability_cap}.

{a}'s maximum liability for all claims of any kind is limited to {liability_cap}.

Neither Party shall be liable for lost profits, and the liability of each is capped at
{liability_cap} in the aggregate.

The cumulative liability of {a} to {b} for all causes of action shall in no case be greater than
{liability_cap}.

[insurance]
{b} shall maintain commercial general liability insurance with limits of not less than {insurance}
per occurrence, and shall name {a} as an additional insured.

{b} shall, at its own expense, carry product liability insurance in the amount of {insurance}.

Each party will keep in force comprehensive insurance of at least {insurance} with a reputable
insurer.

{b} is required to obtain a policy of liability insurance providing coverage of {insurance} for
each claim.

Prior to commencing work, {b} shall furnish a certificate of insurance evidencing coverage in the
minimum amount of {insurance}.

[warranty]
{a} warrants that the {product} shall be free from defects in material and workmanship for a period
of {warranty_duration} from delivery.

For {warranty_duration} after acceptance, {a} warrants that the {product} will conform to the
specifications.

The warranty period is {warranty_duration} from the date of shipment, and {b}'s sole remedy is
repair or replacement.

{a} will correct any defect in the {product} that is reported within {warranty_duration} of
installation.

All {product} carry a limited warranty of {warranty_duration}.

[confidentiality]
Each party shall hold the Confidential Information of the other in strict confidence, and this
obligation shall survive for {confidentiality_term} after termination.

The receiving Party shall not disclose Confidential Information for {confidentiality_term} from
its disclosure.

The duties of this Article continue for {confidentiality_term} following the end of this Agreement.

For {confidentiality_term} after expiry, neither party may use the secrets of the other.

Confidential Information must be protected with reasonable care for {confidentiality_term}.

[law]
This Agreement shall be governed by and construed in accordance with the laws of {governing_law},
without regard to its conflict of laws principles. The parties submit to the courts located in
{venue}.

The validity and performance of this Agreement are governed by the laws of {governing_law}. Any
dispute shall be settled by arbitration in {venue}.

This Agreement is made under, and shall be interpreted by, the law of {governing_law}.

The laws of {governing_law} apply to this Agreement, except for their choice-of-law rules.
Exclusive jurisdiction and venue shall lie in {venue}.

All questions concerning this Agreement shall be decided under the internal laws of
{governing_law}.

[notices]
All notices shall be in writing and shall be deemed given {deemed_notice} after deposit in the
United States mail, addressed: If to {a}: {A}, {aa}, Attention: {ap}. If to {b}: {B}, {ba},
Attention: {bp}.

Notices are effective upon receipt, or {deemed_notice} after mailing, at these addresses: {A}, {aa}
(for {a}), and {B}, {ba} (for {b}).

Any notice must be sent by courier to {A}, {aa}, to the attention of {ap}, or to {B}, {ba}, to the
attention of {bp}, and is deemed received {deemed_notice} later.

[filler]
Nothing contained in this Section shall limit or otherwise affect any right or remedy that is
available to a party under any other provision of this Agreement or under applicable law.

The parties acknowledge that the provisions of this Section have been negotiated between them and
reflect a reasonable allocation of the risks and benefits of the transactions contemplated hereby.

For the avoidance of doubt, the foregoing applies whether or not the party concerned has been
advised of the circumstances, and shall be subject in all respects to the other terms hereof.

Each party shall execute and deliver such further instruments, and take such other actions, as may
reasonably be requested by the other in order to carry out the intent of this Section.

The provisions of this Section shall be binding upon and inure to the benefit of the parties hereto
and their respective successors, heirs, legal representatives and permitted assigns.

The foregoing obligations shall apply to {b} and to its subcontractors, if any, and {b} shall remain
fully responsible to {a} for the performance of all persons acting on its behalf.

[boiler]
No waiver of any provision of this Agreement shall be deemed a waiver of any other provision, nor
shall any waiver constitute a continuing waiver. The failure of a party to insist upon strict
performance shall not affect its right to require such performance at any later time.

This Agreement constitutes the entire agreement between the parties with respect to its subject
matter and supersedes all prior negotiations, understandings and agreements, whether written or
oral. It may be amended only by a writing signed by both parties.

If any provision of this Agreement is held to be invalid or unenforceable, the remaining provisions
shall continue in full force and effect, and the parties shall negotiate in good faith a substitute
provision that most nearly reflects their intent.

Neither party may assign this Agreement without the prior written consent of the other, which shall
not be unreasonably withheld, except to a successor to all or substantially all of its business.

The relationship of the parties is that of independent contractors. Nothing herein shall be
construed to create a partnership, joint venture, agency or employment relationship.

Neither party shall be liable for any delay or failure to perform that is due to causes beyond its
reasonable control, including acts of God, war, strikes, fire, flood or governmental action.

This Agreement may be executed in counterparts, each of which shall be deemed an original and all
of which together shall constitute one and the same instrument.

{a} shall indemnify, defend and hold harmless {b} from and against any third-party claims, losses
and expenses, including reasonable attorneys' fees, arising from its negligence or breach.

{b} shall comply with all applicable laws and regulations and shall obtain all permits that are
required for the performance of its obligations hereunder.

Title to the {product} and all intellectual property rights therein shall remain with {a}, and {b}
shall acquire no interest other than as is expressly granted.

The section headings contained in this Agreement are for reference purposes only and shall not
affect in any way the meaning or interpretation of this Agreement.

"Affiliate" means any entity that controls, is controlled by or is under common control with a
party. "Net Sales" means the gross amounts invoiced less returns, freight and taxes. "Territory"
means the area described in Exhibit B.
"""

_APART_CLAUSES = """
[preamble]
This {title} (this "Contract") is dated {agreement_date} among {A}, {ad} (together with its
successors and permitted assigns, "{a}"), and {B}, {bd} ("{b}").

THIS {TITLE} is executed on {agreement_date} by {A}, {ad}, as the {a}, and {B}, {bd}, as the {b}.

{TITLE} dated {agreement_date}, by and among {A}, {ad} (herein called the "{a}"), and {B}, {bd}
(herein called the "{b}"; each a "Contracting Party").

This {title} has been made and concluded as of {agreement_date}, by and between the following: {A}
("{a}"), which is {ad}, and {B} ("{b}"), which is {bd}.

WITNESSETH: that on {agreement_date} {A}, {ad} (hereafter, "{a}"), and {B}, {bd} (hereafter,
"{b}"), entered into this {title} upon the terms and conditions stated below.

[preamble_effective]
This {title} is made and effective {effective_date} (the "Effective Date"), among {A}, {ad}
(together with its successors, "{a}"), and {B}, {bd} ("{b}").

THIS {TITLE} is executed to be effective as of {effective_date} ("Effective Date") by {A}, {ad}, as
the {a}, and {B}, {bd}, as the {b}.

{TITLE} by and among {A}, {ad} (herein called the "{a}"), and {B}, {bd} (herein called the "{b}"),
with an effective date of {effective_date} (the "Effective Date").

By their signatures below, {A} ("{a}"), {ad}, and {B} ("{b}"), {bd}, agree to be bound by this
{title} from {effective_date} (the "Effective Date").

This {title} sets forth the terms upon which, from and after {effective_date} (the "Effective
Date"), {A}, {ad} (hereafter, "{a}"), and {B}, {bd} (hereafter, "{b}"), will do business.

[effective]
The effective date of this Contract is {effective_date} (the "Effective Date").

This Contract shall be binding upon the parties from and after {effective_date} (the "Effective
Date"), even if it is signed on an earlier or later day.

For purposes hereof, the term "Effective Date" shall mean {effective_date}.

Subject to Section 2, the provisions hereof will come into effect {effective_date}, being the
Effective Date.

This Contract will be deemed effective as of {effective_date} upon its signature by all parties.

[initial]
The initial term hereof will begin on the Effective Date and last for {initial_term} thereafter
(the "Initial Period"), except as it may be ended earlier pursuant to this Section.

Subject to prior termination, this Contract will have an initial period of {initial_term}.

This Contract is for a fixed initial term of {initial_term} commencing on the Effective Date.

The parties agree to an initial duration of {initial_term}, measured from the Effective Date, and to
such further periods as are provided for in this Section.

{b} is retained for an initial period of {initial_term} after the Effective Date, subject to the
provisions on early termination.

[dated]
Unless extended, this Contract will terminate on {expiration_date}.

The initial term hereof starts on the Effective Date and will expire at midnight on
{expiration_date}.

This Contract is to continue until the close of business on {expiration_date} (the "End Date").

Subject to prior termination, the parties' obligations hereunder will terminate automatically as of
{expiration_date}.

The expiration of the initial period will occur on {expiration_date} without further notice.

[renewal]
Following such period, the term will be automatically extended by {renewal_term} unless a party
delivers notice to the contrary {notice_period} or more in advance of the scheduled expiration.

Renewal for consecutive terms of {renewal_term} will occur automatically, absent written notice of
termination furnished at least {notice_period} in advance of the next renewal term.

This Contract is then automatically renewable from time to time for {renewal_term}, provided that
neither party has elected against renewal with a minimum of {notice_period} notice.

Each further term will have a length of {renewal_term}. In order to prevent a renewal, a party must
send its written election not to renew at least {notice_period} ahead of the anniversary.

{b} has an option to extend this Contract for a renewal term of {renewal_term}, which is exercised
by notice to {a} no fewer than {notice_period} ahead of expiration.

[termination]
*Without cause, and without penalty, either party is permitted to terminate on {convenience_notice}
notice.

*{a} may elect at any time to terminate this Contract for its convenience, effective
{convenience_notice} following notice to {b}.

*{b} may for any reason or no reason terminate this Contract by means of a written notice sent at
least {convenience_notice} in advance.

*At its sole option and without showing cause, {a} may discontinue this Contract by furnishing at
least {convenience_notice} notice.

*Any party may withdraw from this Contract for convenience upon not less than {convenience_notice}'
notice to all others.

[cure]
If a party defaults in any material obligation and does not correct the default within {cure_period}
of a written demand, the other party is entitled to terminate this Contract.

Termination for cause requires that the breaching party has first been given notice of the breach
and {cure_period} in which to cure it.

Upon a material default by {b} that remains uncured {cure_period} after notice, {a} may, in addition
to its other remedies, terminate this Contract.

Each party will be afforded {cure_period} to rectify any breach of which it is notified, after
which the aggrieved party may terminate with immediate effect.

Any of the following is an event of default: (i) insolvency; or (ii) a breach that goes unremedied
for {cure_period} following notice.

[payment]
{a} will bill {b} each month, and {b} will pay the amounts billed within {payment_terms} of the
bill's date. Unpaid balances carry interest of {late_interest} monthly.

Unless disputed in good faith, each statement is payable net {payment_terms}. Past due sums bear a
finance charge of {late_interest} for each month or part thereof.

Payment of each bill is to be made by wire transfer no more than {payment_terms} after its receipt,
and {late_interest} monthly will be added to delinquent sums.

{b} agrees to a credit period of {payment_terms} from billing. Delinquent accounts are charged
{late_interest} monthly, but never more than the law allows.

The due date of each bill is {payment_terms} after its issuance. Thereafter it carries a late charge
at {late_interest} for every month of delay.

[royalty]
{b} will remit to {a} a continuing royalty in the amount of {revenue_share} of Adjusted Gross
Receipts, on or before the tenth day of every month.

{a}'s share of the revenues generated hereunder will be {revenue_share}, with {b} retaining the
balance.

A percentage fee of {revenue_share} of Gross Receipts is payable to {a} throughout the term.

Out of all sums actually collected on the {product}, {b} will account to {a} for {revenue_share}.

{a} earns a royalty at the rate of {revenue_share} on all sales of {product} made by {b}.

[minimum]
{b} promises to purchase at least {minimum_commitment} of {product} in every year hereof.

The annual minimum commitment of {b} hereunder is {minimum_commitment}, payable regardless of actual
volume.

If purchases by {b} in any year fall below {minimum_commitment} (the "Minimum"), {b} will pay the
shortfall.

{b} will order no less than {minimum_commitment} of {product} annually.

As a minimum guarantee, {b} will pay {a} the non-refundable sum of {minimum_commitment} every year.

[audit]
*Once in any calendar year, {a} may at its cost have {b}'s books audited by accountants of its own
choosing. {b} must retain them for {records_period}.

{b} will keep accurate accounts and hold them for {records_period}. *Upon request, {b} will afford
{a}'s auditors access to all such accounts and supporting documentation.

*{a} is entitled to inspect the premises, accounts and files of {b} on five business days' notice,
in order to determine whether the sums paid are correct. Files are retained for {records_period}.

*For {records_period} following each payment, {a} may conduct an examination of the corresponding
ledgers, either itself or by agents.

*An audit of {b}'s sales records may be carried out by {a} at any reasonable time. {b} undertakes to
keep these records no less than {records_period}.

[exclusivity]
*{b} will be the sole and exclusive seller of the {product} throughout the Region, to the exclusion
of all others.

*{a} will not, directly or through others, sell the {product} in the Region other than through {b}.

*{b} agrees to buy all of its requirements of {product} solely from {a}.

*While this Contract is in effect, {b} will not engage in any business competitive with the
{product}.

*The license conferred on {b} is exclusive within the Region for all {product}.

[nonexclusive]
{a} engages {b} in connection with the {product}, as more fully set forth in Schedule A.

{b} is authorized to deal in the {product} to the extent set forth in Schedule A.

{a} will furnish the {product} identified in Schedule A, and {b} will pay for it.

The scope of the {product} is defined in Schedule A, which may be updated from time to time.

{a} and {b} will collaborate on the {product} in the manner set forth in Schedule A.

[cap]
{a}'S ENTIRE LIABILITY, WHETHER IN CONTRACT, TORT OR OTHERWISE, IS LIMITED TO {liability_cap}, AND
NO PUNITIVE OR SPECIAL DAMAGES MAY BE RECOVERED.

A party's liability hereunder, from all sources, will not be more than {liability_cap}.

Under no circumstances may damages recovered from {a} in connection herewith exceed the sum of
{liability_cap}.

Damages are subject to a cap of {liability_cap}, which does not apply to willful misconduct.

Neither party is to be held liable for indirect losses or, in total, for any amount over
{liability_cap}.

[insurance]
{b} must procure and keep in effect a general liability insurance policy with a combined single
limit of {insurance}, under which {a} is named as an insured.

{b} will at all times be insured for at least {insurance} against claims for bodily injury and
property damage.

Insurance. Coverage for commercial liability in an amount not below {insurance} is to be carried by
{b} with an insurer rated A or better.

At its sole cost {b} will purchase errors and omissions insurance having limits of {insurance}.

Evidence of liability insurance coverage totaling {insurance} must be delivered by {b} within ten
days of signing.

[warranty]
{a} represents and warrants to {b} that, for {warranty_duration} following delivery, the {product}
will perform substantially as documented.

{a} will repair or replace at no charge any {product} found defective in the first
{warranty_duration} of use.

The foregoing warranty expires {warranty_duration} after {b}'s receipt of the {product}.

The {product} are warranted against defects for {warranty_duration} from first use.

A warranty claim must be made no more than {warranty_duration} after the date of acceptance.

[confidentiality]
The recipient of proprietary information will safeguard it during the term and for an additional
{confidentiality_term}.

Obligations of confidentiality will endure for {confidentiality_term} beyond the expiration of this
Contract.

No party will reveal the other's proprietary information until {confidentiality_term} have elapsed
since its receipt.

Proprietary information remains subject to this Section for {confidentiality_term} after disclosure.

Each recipient covenants to keep proprietary information secret for {confidentiality_term}.

[law]
The substantive law of {governing_law} governs this Contract in all respects. Each party consents to
the personal jurisdiction of the courts sitting in {venue}.

This Contract, and all claims related to it, are subject to the laws of {governing_law} (exclusive
of its rules on choice of law), and actions must be brought in {venue}.

Interpretation and enforcement of this Contract will be pursuant to the laws of {governing_law}.

The parties have chosen the laws of {governing_law} as the law governing this Contract. Venue is
proper solely in {venue}.

This Contract is deemed made in, and its construction is controlled by the laws of,
{governing_law}.

[notices]
Any notice required hereunder is to be delivered in person or by certified mail to: {A}, {aa},
Attn: {ap}; and to {B}, {ba}, Attn: {bp}. Mailed notices take effect {deemed_notice} from posting.

Notices to {a} go to {aa}, care of {ap}, and notices to {b} go to {ba}, care of {bp}. Each is
considered delivered {deemed_notice} from the date on which it was sent.

The addresses of the parties for communications are as follows: {a}: {A}, {aa}. {b}: {B}, {ba}. A
communication is treated as delivered after {deemed_notice}.

[filler]
To the extent that any law prohibits what this Section provides, it will be read so as to give
effect to the parties' intention as nearly as the law permits, and no more than that.

Capitalized terms used but not defined in this Section are used with the meanings assigned to them
in Schedule C, as the same may be restated with the consent of all concerned.

The provisions of this Section are for the sole benefit of the parties, and no other person may
rely upon them as a third-party beneficiary or in any other capacity whatsoever.

Costs incurred by a party in performing this Section are for its own account, unless they were
approved for reimbursement in writing before they had been incurred.

The foregoing is cumulative of, and not in substitution for, such other rights and remedies as a
party may have at law or in equity, all of which are expressly reserved.

Each party will cause its officers, employees and agents to observe this Section as though they were
themselves named in it, and is answerable for their acts and omissions.

[boiler]
A delay in exercising any right hereunder does not operate as its relinquishment, and a partial
exercise does not preclude a further one. Consent on one occasion is not consent on any other.
Rights may be relinquished only by a signed instrument that says so.

The final and complete understanding of the parties is embodied in this document and its schedules,
which replace every earlier proposal, term sheet, letter of intent and course of dealing. No
modification is binding without signature by an officer of each party.

Should a court of competent jurisdiction find any term hereof void, that term is severed, and what
remains is enforced as written. The parties will replace the severed term by one that is lawful and
of like economic effect.

{b} is not permitted to transfer or sublicense any interest herein, voluntarily or by operation of
law, unless {a} has consented. A change of control counts as a transfer. This Contract inures to the
benefit of permitted successors.

{b} performs as an independent contractor and is solely responsible for its employees, payroll and
taxes. No agency, franchise or fiduciary relationship is intended, and neither party has power to
obligate the other.

Performance is excused for as long as it is prevented by an event of force majeure, such as riot,
epidemic, embargo, earthquake, or shortage of raw materials, if the affected party gives prompt
notice and uses diligent efforts to resume.

Signatures transmitted by facsimile or electronic mail are as effective as originals, and any number
of duplicate copies may be signed, which together make up a single document.

{b} will protect and indemnify {a}, its officers and agents against all suits, judgments, damages
and costs that result from {b}'s conduct of its business, with counsel reasonably acceptable to {a}.

No press release about this Contract may be issued by a party without prior approval by the other of
its content, save for disclosure that securities laws or stock exchange rules call for.

Trademarks, copyrights, trade secrets and patents of {a} embodied in the {product} stay its
property.
{b} will not register, contest, reverse engineer or alter them, nor remove proprietary legends.

Captions are inserted for convenience and are to be disregarded in construing this Contract. Words
in the singular include the plural. This Contract is not to be construed against its drafter.

"Region" refers to the states shown on Schedule B. "Gross Receipts" refers to all moneys collected
from customers, before deductions. "Group Company" refers to any parent, subsidiary or sister
company of a party.

Disputes are first to be discussed by senior executives of the parties, who will confer in good
faith. If they do not resolve the matter, either party may pursue mediation and, thereafter, such
remedies as are available to it.
"""

_TRAIN_TITLES = """
preamble: Parties
effective: Effectiveness; Commencement
initial: Term; Term and Renewal; Term of Agreement
dated: Term; Term and Termination; Duration
termination: Termination for Convenience; Termination Without Cause; Early Termination
cure: Termination for Cause; Default; Events of Default
payment: Payment; Fees and Payment; Invoicing
royalty: Royalties; Compensation; Revenue Share
minimum: Minimum Purchases; Minimum Commitment; Sales Targets
audit: Audit Rights; Books and Records; Records and Audit
exclusivity: Grant of Rights; Exclusivity; Appointment
nonexclusive: Grant of Rights; Scope; Appointment
cap: Limitation of Liability; Limits of Liability; Liability
insurance: Insurance; Insurance Requirements
warranty: Warranties; Limited Warranty; Warranty and Disclaimer
confidentiality: Confidentiality; Confidential Information; Non-Disclosure
law: Governing Law; Applicable Law; Governing Law and Venue
notices: Notices; Notice
boiler: General Provisions; Miscellaneous; Additional Terms; Construction; Other Matters
"""

_APART_TITLES = """
preamble: The Parties
effective: Effective Date; Date of Effectiveness
initial: Initial Period; Period of Contract; Term/Renewals
dated: Period of Contract; Expiration; End Date
termination: Convenience Termination; Right to Terminate
cure: Breach and Cure; Remedies on Default; Cause
payment: Billing; Payment Terms; Accounts Payable
royalty: Royalty; Fees; Consideration
minimum: Minimums; Annual Minimum; Volume
audit: Audits; Inspection; Accounting and Audit
exclusivity: Exclusive Dealing; Restrictions; License
nonexclusive: Engagement; Subject Matter; License
cap: Cap on Damages; Limited Liability; Damages
insurance: Insurance Coverage; Required Insurance
warranty: Warranty; Product Warranty; Quality
confidentiality: Proprietary Information; Secrecy
law: Choice of Law; Law; Law and Jurisdiction
notices: Communications; Addresses for Notices
boiler: Standard Terms; Various; Other Provisions; Sundry Matters; Closing Provisions
"""


def _clauses(text: str) -> dict[str, tuple[str, ...]]:
    made: dict[str, tuple[str, ...]] = {}
    for part in re.split(r"\n(?=\[)", text.strip()):
        key, _, wordings = part.partition("]\n")
        made[key[1:]] = tuple(" ".join(one.split()) for one in wordings.strip().split("\n\n"))
    return made


def _titles(text: str) -> dict[str, tuple[str, ...]]:
    rows = (line.partition(": ") for line in text.strip().splitlines())
    return {key: tuple(names.split("; ")) for key, _, names in rows}


def _names(text: str) -> tuple[str, ...]:
    return tuple(" ".join(name.split()) for name in text.split(";"))


CONTRACT_WORDS = {
    "train": ContractWords(
        _clauses(_TRAIN_CLAUSES),
        _titles(_TRAIN_TITLES),
        (
            ("Distribution Agreement", "Supplier", "Distributor", "Products"),
            ("License Agreement", "Licensor", "Licensee", "Licensed Technology"),
            ("Supply Agreement", "Seller", "Buyer", "Goods"),
            ("Master Services Agreement", "Provider", "Customer", "Services"),
            ("Marketing Agreement", "Company", "Promoter", "Programs"),
            ("Equipment Lease Agreement", "Lessor", "Lessee", "Equipment"),
        ),
        _names(
            """Tamarack Biologics, Inc.;Vantrell Holdings Corp.;Ostrander Foods LLC;Quillhaven
            Software, Inc.;Pell & Marchetti Company;Norwick Semiconductor Corporation;Bluestem
            Energy Partners, L.P.;Castellane Beverages Ltd.;Ridgepole Medical Devices, Inc.;
            Corvane Networks LLC;Hollis Tarn Industries, Inc.;Amberlyn Cosmetics Corp.;Seaforth
            Data Systems, Inc.;Greywater Pumps LLC;Lumenfold Displays, Inc.;Dunmore Rail Supply
            Co.;Pinyon Apparel Group, Inc.;Everhart Diagnostics, N.A.;Kestrel Point Media LLC;
            Thornbury Chemical Corporation;Wexcombe Toys, Inc.;Salters Bay Seafood Co.;Orrin
            Valley Dairy, Inc.;Halcyon Freight Lines, Inc."""
        ),
        ("Gerald Pratchard", "Lena Osterhaus", "Tobias Wren", "Marjorie Delacourt",
         "Simon Adeyemi", "Patrice Holloway", "Ivan Krasner", "Beatriz Lomas"),
        ("410 Larkspur Avenue, Suite 200, Dayton, Ohio 45402",
         "77 Quarry Road, Burlington, Vermont 05401", "1900 Harbor Street, Tampa, Florida 33602",
         "5 Foundry Square, Akron, Ohio 44308", "2200 Mesa Drive, Tempe, Arizona 85281",
         "16 Orchard Lane, Albany, New York 12207", "830 Tannery Way, Boise, Idaho 83702"),
    ),
    "apart": ContractWords(
        _clauses(_APART_CLAUSES),
        _titles(_APART_TITLES),
        (
            ("Reseller Agreement", "Vendor", "Reseller", "Articles"),
            ("Franchise Agreement", "Franchisor", "Franchisee", "Concept"),
            ("Outsourcing Agreement", "Contractor", "Client", "Works"),
            ("Manufacturing Agreement", "Manufacturer", "Purchaser", "Devices"),
            ("Hosting Agreement", "Host", "Subscriber", "Platform"),
            ("Endorsement Agreement", "Talent", "Sponsor", "Branded Goods"),
        ),
        _names(
            """Brackenridge Pharma, Inc.;Solvang Robotics Corp.;Mirabeau Hospitality LLC;Zephyrine
            Airlines, Inc.;Cobb & Harkness Company;Indigo Fjord Semiconductors, Inc.;Palisade Oil
            Ventures, L.P.;Juniper Row Wines Ltd.;Sternwick Optics, Inc.;Falcata Telecom LLC;
            Umber Lake Paper, Inc.;Delphine Jewelry Corp.;Northolt Analytics, Inc.;Cinder Creek
            Mining LLC;Tessellate Games, Inc.;Yarrow Street Bakeries Co.;Rosamund Textiles, Inc.;
            Marlow Gate Insurance Services, Inc.;Petrel Sound Records LLC;Ashgrove Fertilizer
            Corporation;Kiteworthy Bikes, Inc.;Lagan Shipyards Co.;Vireo Audio, Inc.;Basalt
            Roofing Supply, Inc."""
        ),
        ("Winston Abernathy", "Clara Voss", "Emeka Nwosu", "Dorothea Lindqvist", "Hugh Castellan",
         "Yvonne Tremblay", "Rafael Ibarra", "Nadine Sokolov"),
        ("615 Cathedral Plaza, Denver, Colorado 80203", "9 Wharf Passage, Portland, Maine 04101",
         "3300 Bayou Bend, Houston, Texas 77019",
         "48 Mill Pond Terrace, Nashua, New Hampshire 03060",
         "1212 Cannery Row, Seattle, Washington 98101",
         "250 Peachtree Court, Atlanta, Georgia 30303",
         "71 Lighthouse Hill, Newport, Rhode Island 02840"),
    ),
}  # fmt: skip

STATES = (
    "Delaware", "New York", "California", "Texas", "Florida", "Illinois", "Massachusetts",
    "Pennsylvania", "New Jersey", "Nevada", "Ohio", "Georgia", "Virginia", "Washington",
    "North Carolina", "Minnesota", "Colorado", "Utah",
)  # fmt: skip
COMMONWEALTHS = ("Massachusetts", "Pennsylvania", "Virginia")
TOWNS = {
    "Delaware": "Wilmington", "New York": "New York City", "California": "Los Angeles County",
    "Texas": "Dallas", "Florida": "Miami", "Illinois": "Chicago", "Massachusetts": "Boston",
    "Nevada": "Las Vegas", "Ohio": "Columbus", "Georgia": "Fulton County",
}  # fmt: skip
