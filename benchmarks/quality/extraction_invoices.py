"""Invoices of sixteen locales, made by rules, to fit on: an app's answers with its usual mistakes.

What is measured on has documents, labels and layouts of its own. Five locales are kept apart here too.
"""

# ruff: noqa: ISC004 - lists of words read best as text
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from babel.dates import format_date
from babel.numbers import format_currency, format_decimal
from extraction_data import Case

from llmeval_sdk.model import Chunk, Record


FIELDS = {
    "total": "amount to be paid, taxes included",
    "subtotal": "sum of the items before taxes",
    "tax_amount": "taxes on the items",
    "invoice_number": "identifier of the invoice",
    "order_number": "identifier of the order",
    "issue_date": "day on which the invoice was written",
    "due_date": "day until which it has to be paid",
    "customer_name": "who bought",
    "vendor_name": "who sold",
}
NEIGHBOUR = {
    "total": "subtotal", "subtotal": "total", "tax_amount": "subtotal", "due_date": "issue_date",
    "issue_date": "due_date", "invoice_number": "order_number", "order_number": "invoice_number",
    "customer_name": "vendor_name", "vendor_name": "customer_name",
}  # fmt: skip
ERRORS = ("neighbour", "other document", "wrong figure")

# locale -> currency, labels (in the order of FIELDS, "|" between two ways), sellers, buyers, goods
LOCALES: dict[str, tuple[str, str, str, str, str]] = {
    "en_US": ("USD", "Amount Due|Balance to pay;Items total|Merchandise;Sales Tax|State tax;"
              "Invoice #|Bill no.;PO #|Purchase order;Billed on|Invoice Date;Pay by|Due;Sold to|Bill To;"
              "From|Remit to", "Prairie Tools LLC;Calder & Finch Inc.", "Ruth Okafor;Mesa Dental Group",
              "Hex bolts;Copper wire"),
    "en_GB": ("GBP", "To pay|Total payable;Goods|Net amount;VAT|Value added tax;Invoice ref|Document no;"
              "Your order|Order ref;Tax point|Dated;Settle by|Payment due;Customer|Invoice to;Supplier|From",
              "Thistle Joinery Ltd;Marlow Paper plc", "Gwen Pryce;Holt Bakery", "Oak panel;Varnish"),
    "de_DE": ("EUR", "Rechnungsbetrag|Zahlbetrag;Zwischensumme|Warenwert;MwSt.|Umsatzsteuer;"
              "Rechnungs-Nr.|Belegnummer;Bestell-Nr.|Auftrag;Rechnungsdatum|Ausgestellt am;"
              "Zahlbar bis|Fällig am;Kunde|Empfänger;Lieferant|Aussteller",
              "Sägewerk Brunner GmbH;Kessel & Rohr KG", "Jutta Ahlers;Praxis Dr. Nold", "Dübel;Kabelkanal"),
    "fr_FR": ("EUR", "Net à payer|Montant TTC;Total HT|Sous-total;TVA|Taxes;Facture n°|Réf. facture;"
              "Commande n°|Bon de commande;Date d'émission|Établie le;Échéance|À régler avant le;Client|Facturé à;"
              "Fournisseur|Émetteur", "Menuiserie Lagarde SARL;Papeterie du Lac", "Odile Perrin;Garage Vasseur",
              "Vis inox;Peinture"),
    "es_ES": ("EUR", "Importe total|Total a pagar;Base imponible|Subtotal;IVA|Impuestos;Factura n.º|N.º de factura;"
              "Pedido|N.º de pedido;Fecha de emisión|Expedida el;Vencimiento|Pagar antes del;Cliente|Facturar a;"
              "Proveedor|Emisor", "Talleres Ibarra S.L.;Cerámicas Olmo", "Nuria Sanz;Clínica Duero", "Azulejo;Cemento"),
    "it_IT": ("EUR", "Totale da pagare|Importo dovuto;Imponibile|Totale merce;IVA|Imposta;Fattura n.|Numero documento;"
              "Ordine n.|Rif. ordine;Data fattura|Emessa il;Scadenza|Da saldare entro;Cliente|Intestatario;Fornitore|Cedente",
              "Falegnameria Bosi S.r.l.;Cartiera Adda", "Livia Conti;Studio Ferri", "Vite;Colla"),
    "pt_BR": ("BRL", "Valor a pagar|Total geral;Soma dos itens|Subtotal;Impostos|Tributos;Nota nº|Fatura;"
              "Pedido nº|Ordem de compra;Emitida em|Data de emissão;Vence em|Vencimento;Comprador|Cliente;Vendedor|Emitente",
              "Serralheria Aurora Ltda;Papéis do Sul", "Beatriz Prado;Padaria Sol", "Parafuso;Tinta"),
    "nl_NL": ("EUR", "Te betalen|Totaalbedrag;Subtotaal|Bedrag excl.;Btw|Omzetbelasting;Factuurnummer|Nota;"
              "Ordernummer|Bestelling;Factuurdatum|Opgemaakt op;Vervaldatum|Uiterlijk betalen op;Klant|Afnemer;Leverancier|Verkoper",
              "Houthandel Visser BV;Drukkerij De Pers", "Anouk Smit;Tandarts Mulder", "Schroef;Verf"),
    "pl_PL": ("PLN", "Do zapłaty|Kwota brutto;Wartość netto|Suma pozycji;VAT|Podatek;Faktura nr|Numer dokumentu;"
              "Zamówienie nr|Zlecenie;Data wystawienia|Wystawiono;Termin płatności|Płatne do;Nabywca|Odbiorca;Sprzedawca|Dostawca",
              "Tartak Zieliński Sp. z o.o.;Papier Wisła", "Hanna Król;Apteka Pod Lipą", "Śruba;Farba"),
    "sv_SE": ("SEK", "Att betala|Summa inkl. moms;Delsumma|Netto;Moms|Skatt;Fakturanr|Fakturanummer;Ordernr|Beställning;"
              "Fakturadatum|Utställd;Förfallodatum|Betalas senast;Kund|Köpare;Säljare|Leverantör",
              "Snickeri Lund AB;Pappershuset Norr", "Elin Berg;Tandvården Syd", "Skruv;Lack"),
    "cs_CZ": ("CZK", "K úhradě|Celkem s DPH;Mezisoučet|Základ daně;DPH|Daň;Faktura č.|Číslo dokladu;Objednávka č.|Zakázka;"
              "Datum vystavení|Vystaveno;Splatnost|Uhradit do;Odběratel|Zákazník;Dodavatel|Prodávající",
              "Pila Horák s.r.o.;Papírna Morava", "Jana Dvořáková;Lékárna U Mostu", "Šroub;Barva"),
    "tr_TR": ("TRY", "Ödenecek tutar|Genel toplam;Ara toplam|Mal bedeli;KDV|Vergi;Fatura no|Belge no;Sipariş no|Talep no;"
              "Düzenleme tarihi|Fatura tarihi;Son ödeme tarihi|Vade;Müşteri|Alıcı;Satıcı|Tedarikçi",
              "Yıldız Kereste A.Ş.;Mavi Kağıt Ltd.", "Elif Demir;Güneş Eczanesi", "Vida;Boya"),
    "ru_RU": ("RUB", "Всего к оплате|Итого с НДС;Сумма без НДС|Стоимость товаров;НДС|Налог;Счёт №|Номер документа;"
              "Заказ №|Заявка;Дата выставления|Выписан;Оплатить до|Срок оплаты;Покупатель|Заказчик;Продавец|Поставщик",
              "ООО Лесопилка Север;ООО Бумага Урал", "Анна Крылова;Клиника Здоровье", "Болт;Краска"),
    "ja_JP": ("JPY", "ご請求金額|お支払合計;小計|商品代金;消費税|税額;請求書番号|伝票番号;注文番号|発注番号;発行日|請求日;"
              "お支払期限|支払期日;お客様|宛先;発行元|販売者", "株式会社 北川木材;山田紙業", "佐藤 花子;みどり歯科", "ねじ;塗料"),
    "zh_CN": ("CNY", "应付金额|价税合计;小计|货款;税额|增值税;发票号|单据编号;订单号|采购单号;开票日期|出具日期;付款截止日|到期日;"
              "购买方|客户;销售方|供应商", "北方木业有限公司;江南纸业", "王丽;阳光诊所", "螺丝;油漆"),
    "ko_KR": ("KRW", "청구 금액|총 결제액;소계|물품 대금;부가세|세금;청구서 번호|문서 번호;주문 번호|발주 번호;발행일|작성일;"
              "납부 기한|결제 기한;고객|구매자;공급자|판매자", "한빛목재 주식회사;푸른종이", "김지수;사랑치과", "나사;페인트"),
}  # fmt: skip
KEPT_APART = ("it_IT", "sv_SE", "cs_CZ", "ko_KR", "en_GB")
"""Locales that nothing is fitted on."""
LAYOUTS = ("lines", "columns", "pipes", "above", "prose")


@dataclass(frozen=True)
class Value:
    """One field of one answer: the record that is scored, and what is wrong with the value."""

    locale: str
    document: str
    field: str
    error: str | None
    record: Record


@dataclass(frozen=True)
class Invoice:
    """A document, and its fields as it writes them and as a data base would."""

    text: str
    written: dict[str, str]
    plain: dict[str, str]


def values(seed: int = 1, documents: int = 60, bad: float = 0.25) -> Iterator[Value]:
    """Yield the values of ``documents`` invoices of each locale, ``bad`` of them wrong."""
    for locale in LOCALES:
        dice = random.Random(f"{seed} {locale}")
        for number in range(documents):
            own, other = invoice(locale, dice, 0), invoice(locale, dice, 1)
            chunks = (
                Chunk(own.text, f"{locale}-{number}.txt"),
                Chunk(other.text, f"{locale}-x.txt"),
            )
            for field in FIELDS:
                error = dice.choice(ERRORS) if dice.random() < bad else None
                yield _value(locale, number, field, error, own, other, chunks, dice)


def _value(locale, number, field, error, own, other, chunks, dice) -> Value:
    form = "plain" if dice.random() < 0.5 else "written"
    source, name = own, field
    if error == "neighbour":
        name = NEIGHBOUR[field]
    elif error == "other document":
        source = other
    value = getattr(source, form)[name]
    if error == "wrong figure":
        value = misread(value, dice)
    record = Record(
        request="Extract the invoice.",
        value=value,
        field_config={"name": field, "description": FIELDS[field]},
        retrieved_context=chunks
        if error == "other document" or dice.random() < 0.3
        else chunks[:1],
    )
    return Value(locale, f"{locale}-{number}", field, error, record)


def misread(value: str, dice: random.Random) -> str:
    """Drop or change a figure or a letter."""
    places = [at for at, sign in enumerate(value) if sign.isdecimal()] or [
        at for at, sign in enumerate(value) if sign.isalpha()
    ]
    at = dice.choice(places)
    digit = value[at]
    another = (
        str((int(digit) + dice.randint(1, 8)) % 10) if digit.isdecimal() else dice.choice("qwxk")
    )
    return value[:at] + another + value[at + 1 :]


def invoice(locale: str, dice: random.Random, side: int) -> Invoice:
    """Make one invoice; ``side`` chooses among the sellers and buyers."""
    currency, labels, sellers, buyers, goods = LOCALES[locale]
    zero = currency in ("JPY", "KRW")
    amounts = [round(dice.uniform(20, 4_000), 0 if zero else 2) for _ in range(2)]
    net = round(sum(amounts), 2)
    tax = round(net * dice.choice((0.07, 0.1, 0.19, 0.21)), 0 if zero else 2)
    issued = date(2025, 1, 1) + timedelta(days=dice.randrange(500))
    due = issued + timedelta(days=dice.choice((10, 14, 30, 45)))
    width = dice.choice(("medium", "long", "short" if locale not in ("en_US", "en_GB") else "long"))
    with_sign = dice.random() < 0.6

    def money(amount: float) -> str:
        if with_sign:
            return format_currency(amount, currency, locale=locale)
        return format_decimal(amount, "#,##0" if zero else "#,##0.00", locale=locale)

    def bare(amount: float) -> str:
        return f"{amount:.0f}" if zero else f"{amount:.2f}"

    figures = {"total": net + tax, "subtotal": net, "tax_amount": tax}
    days = {"issue_date": issued, "due_date": due}
    codes = {
        "invoice_number": f"{dice.choice('ABRF')}{dice.randrange(10_000, 99_999)}",
        "order_number": f"{dice.choice('KPQZ')}-{dice.randrange(1_000, 9_999)}",
    }
    names = {
        "customer_name": buyers.split(";")[side], "vendor_name": sellers.split(";")[side],
    }  # fmt: skip
    written = (
        {name: money(amount) for name, amount in figures.items()}
        | {name: format_date(day, width, locale=locale) for name, day in days.items()}
        | codes
        | names
    )
    plain = (
        {name: bare(amount) for name, amount in figures.items()}
        | {name: day.isoformat() for name, day in days.items()}
        | codes
        | names
    )
    way = dice.randrange(2)
    said = {
        name: both.split("|")[way].strip()
        for name, both in zip(FIELDS, labels.split(";"), strict=True)
    }
    items = [(name, money(amount)) for name, amount in zip(goods.split(";"), amounts, strict=True)]
    return Invoice(_laid_out(said, written, items, dice.choice(LAYOUTS), dice), written, plain)


HEAD = ("vendor_name", "customer_name", "invoice_number", "order_number", "issue_date", "due_date")
FOOT = ("subtotal", "tax_amount", "total")


def _laid_out(said, written, items, layout: str, dice: random.Random) -> str:
    head, foot = list(HEAD), list(FOOT)
    dice.shuffle(head)
    goods = [f"{name}  {amount}" for name, amount in items]
    if layout == "lines":
        rows = [f"{said[name]}: {written[name]}" for name in head]
        return "\n".join(
            [*rows, "", *goods, "", *(f"{said[name]}: {written[name]}" for name in foot)]
        )
    if layout == "columns":
        wide = max(map(len, said.values())) + 4
        rows = [said[name].ljust(wide) + written[name] for name in (*head, *foot)]
        return "\n".join([*rows[: len(head)], *goods, *rows[len(head) :]])
    if layout == "pipes":
        rows = [f"| {said[name]} | {written[name]} |" for name in (*head, *foot)]
        return "\n".join(["| | |", "|---|---|", *rows])
    if layout == "above":
        return "\n".join(f"{said[name]}\n{written[name]}\n" for name in (*head, *foot))
    sentences = [f"{said[name]} {written[name]}." for name in (*head, *foot)]
    return " ".join(sentences)


def cases(seed: int = 1, documents: int = 40) -> list[Case]:
    """Return the values of the locales that may be fitted on, as cases of one app."""
    kinds = {None: "right", "neighbour": "present", "other document": "present"}
    return [
        Case("invoices", value.document, "reader", value.record, kinds.get(value.error, "invented"))
        for value in values(seed, documents)
        if value.locale not in KEPT_APART and value.error != "other document"
    ]
