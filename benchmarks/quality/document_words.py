"""The words of the generated documents in each locale: labels, titles, companies, goods, sentences.

They were written for the measurement alone, and by nobody who wrote the package's table of labels.
A label may have a rare form, which no usual table lists. The last companies and goods of each
locale are kept apart from training, and so are whole locales.
"""

from __future__ import annotations

from dataclasses import dataclass


TITLES = ("invoice", "order", "receipt", "contract", "statement", "delivery")
LABELS = (
    "number", "issued", "due", "delivered", "reference", "customer", "vendor", "subtotal", "tax",
    "total", "item", "quantity", "price", "amount", "account", "start", "end", "opening", "closing",
    "fee", "deposit", "contact",
)  # fmt: skip
KEPT_APART = ("de-CH", "ru-RU", "zh-CN", "ko-KR", "fi-FI", "el-GR")
"""Locales that are never trained on."""


@dataclass(frozen=True)
class Words:
    """What the documents of one locale are written with."""

    locale: str
    currency: str
    rate: int
    """Percent of tax."""
    number: str
    """What stands after the title of other documents than invoices, before their number."""
    date: str
    titles: dict[str, str]
    labels: dict[str, tuple[str, ...]]
    """The usual label, and after it a rare one where there is one."""
    vendors: tuple[str, ...]
    customers: tuple[str, ...]
    items: tuple[str, ...]
    people: tuple[str, ...]
    sentence: str
    """States one value in prose, with ``{label}`` and ``{value}``."""
    noise: str
    """A line that every document has and that answers nothing."""


_TABLE = """
en-US USD 8 No. Date
Invoice|Purchase Order|Sales Receipt|Service Agreement|Account Statement|Packing Slip
Invoice No.~Our file|Invoice date~Drawn up on|Payment due~Kindly settle by|Shipped on~Left our dock|PO number~Your file|Bill to~Prepared for|Remit to~From the books of|Subtotal~Goods before levies|Sales tax~State levy|Amount due~Grand sum payable|Description|Qty|Unit price|Line amount|Account number~Pay into|Effective date~Runs from|Expiration date~Runs through|Opening balance~Brought forward|Closing balance~Carried forward|Monthly fee~Recurring charge|Security deposit~Held in trust|Contact~Ask for
Bramble Creek Outfitters LLC;Tallgrass Supply Co.;Ironwood Millworks Inc.;Pelican Bay Goods LLC;Old Quarry Tools Inc.;Sagebrush Paper Co.
Fernhill Dental Group;Osprey Logistics Inc.;Maple Run School;Dune Street Bakery
Cedar planks;Canvas tarps;Steel brackets;Oak stools;Copper wire;Label rolls
Dana Whitlock;Marcus Oyelaran;Ruth Espinoza
The {label} is {value}.
Thank you for doing business with us. Questions are answered on weekdays.
en-GB GBP 20 ref. Date
Tax Invoice|Order Confirmation|Till Receipt|Hire Agreement|Bank Statement|Delivery Note
Invoice ref~Our mark|Tax point~Raised on|Please pay by~Last day to settle|Dispatch date~Sent out on|Your order~Your mark|Invoice to~For the attention of|Supplier~Issued on behalf of|Net total~Value before duty|VAT~Duty added|Total payable~All in|Goods|No. off|Each|Value|Sort code and account~Bankers|Start date~In force from|Termination date~In force until|Balance b/f~Started with|Balance c/f~Ended with|Quarterly rent~Charge each quarter|Bond~Held against damage|Enquiries~Speak to
Harrowgate Joinery Ltd;Thistle & Marsh Ltd;Pennine Lamp Works;Cobblers Row Trading Ltd;Saltmarsh Crafts Ltd;Foxglove Print Ltd
Abbot's Mead Surgery;Lowther Haulage Ltd;St Bride's Hall;Crumb & Crust
Slate tiles;Brass hinges;Wool felt;Garden twine;Ash handles;Paper sacks
Imogen Hartley;Callum Reeve;Priya Dhillon
The {label} stands at {value}.
Goods remain ours until paid for. Registered in England and Wales.
de-DE EUR 19 Nr. Datum
Rechnung|Auftragsbestätigung|Kassenbon|Mietvertrag|Kontoauszug|Lieferschein
Rechnungsnr.~Unser Vorgang|Rechnungsdatum~Geschrieben am|Zahlbar bis~Bitte begleichen bis|Liefertermin~Ausgang am|Bestellnummer~Ihr Vorgang|Kunde~Bestimmt für|Lieferant~Absender der Ware|Zwischensumme~Warenwert vor Abgaben|MwSt.~Abgabe|Gesamtbetrag~Unterm Strich|Bezeichnung|Menge|Einzelpreis|Betrag|IBAN~Überweisung auf|Vertragsbeginn~Gilt ab|Vertragsende~Gilt bis|Anfangssaldo~Vortrag|Endsaldo~Neuer Stand|Monatsmiete~Laufendes Entgelt|Kaution~Hinterlegt|Ansprechpartner~Es hilft Ihnen
Möwenstein Werkzeuge GmbH;Grünhagen & Söhne KG;Lindauer Papier AG;Wiesental Holz GmbH;Kranichfeld Technik GmbH;Birkenau Druck KG
Praxis Dr. Ohlendorf;Spedition Rademacher;Grundschule Ahornweg;Bäckerei Störtebeker
Fichtenbretter;Stahlwinkel;Filzmatten;Kupferdraht;Eichenhocker;Etikettenrollen
Frauke Lüdemann;Jens Wohlfahrt;Ayşe Kolb
{label}: Das sind {value}, wie vereinbart.
Vielen Dank für Ihren Auftrag. Es gelten unsere Bedingungen.
fr-FR EUR 20 n° Date
Facture|Bon de commande|Ticket de caisse|Contrat de location|Relevé de compte|Bon de livraison
N° de facture~Notre dossier|Date de facturation~Établie le|Échéance~À acquitter avant le|Expédié le~Parti le|Commande n°~Votre dossier|Client~À l'intention de|Fournisseur~De la part de|Total HT~Valeur avant taxe|TVA~Taxe ajoutée|Net à payer~La somme de|Désignation|Qté|Prix unitaire|Montant|IBAN~À verser sur|Prise d'effet~Court à partir du|Fin du contrat~Court jusqu'au|Solde initial~Report|Solde final~Nouveau solde|Loyer mensuel~Redevance courante|Dépôt de garantie~Somme consignée|Contact~Votre interlocuteur
Atelier Bellerive SARL;Maison Corvisart;Papeterie du Gué SAS;Les Forges de Limeuil;Verrerie Montclar SAS;Imprimerie Sauvageon
Cabinet Delorme;Transports Vasseur;École des Tilleuls;Boulangerie Perrin
Planches de pin;Équerres acier;Tapis de feutre;Fil de cuivre;Tabourets chêne;Étiquettes
Solène Garrigue;Mathis Aubrac;Inès Belkacem
{label} : nous retenons {value}.
Merci de votre confiance. Tout retard entraîne des pénalités.
es-ES EUR 21 n.º Fecha
Factura|Pedido|Tique de compra|Contrato de alquiler|Extracto bancario|Albarán
Factura n.º~Nuestra carpeta|Fecha de emisión~Extendida el|Vencimiento~Abonar antes del|Fecha de envío~Salió el|N.º de pedido~Su carpeta|Cliente~A la atención de|Proveedor~Por cuenta de|Base imponible~Valor sin gravar|IVA~Gravamen|Total a pagar~Suma final|Concepto|Cant.|Precio|Importe|IBAN~Ingresar en|Inicio~Rige desde|Fin~Rige hasta|Saldo inicial~Venía de antes|Saldo final~Queda|Renta mensual~Canon de cada mes|Fianza~En depósito|Contacto~Pregunte por
Talleres Montenegro S.L.;Papelera del Duero S.A.;Maderas Valdeolivas S.L.;Herrajes Quintana S.L.;Vidrios Peñalba S.A.;Gráficas Retamar S.L.
Clínica Arrieta;Transportes Llorente;Colegio Los Olmos;Panadería Cifuentes
Tablas de pino;Escuadras de acero;Alfombras de fieltro;Hilo de cobre;Taburetes;Etiquetas
Nuria Escribano;Íñigo Salvatierra;Lucía Mbaye
{label}: se fija en {value}.
Gracias por su compra. No se admiten devoluciones tras treinta días.
it-IT EUR 22 n. Data
Fattura|Ordine|Scontrino|Contratto di locazione|Estratto conto|Documento di trasporto
Fattura n.~Nostra pratica|Data fattura~Redatta il|Scadenza~Da saldare entro|Spedito il~Partito il|Ordine n.~Vostra pratica|Cliente~Alla cortese attenzione|Fornitore~Per conto di|Imponibile~Valore senza imposta|IVA~Imposta aggiunta|Totale da pagare~In tutto|Descrizione|Q.tà|Prezzo unitario|Importo|IBAN~Versare su|Decorrenza~Vale dal|Termine~Vale fino al|Saldo iniziale~Riporto|Saldo finale~Nuovo saldo|Canone mensile~Somma ricorrente|Cauzione~Versato a garanzia|Referente~Chiedere di
Officine Bassanello S.r.l.;Cartiera Valleverde S.p.A.;Legnami Torrioni S.r.l.;Ferramenta Spadaro;Vetreria Monfalco S.r.l.;Tipografia Lanzone
Studio Bergamaschi;Trasporti Colonnello;Scuola Le Querce;Panificio Rondinelli
Assi di pino;Staffe in acciaio;Tappeti di feltro;Filo di rame;Sgabelli;Etichette
Ginevra Palladino;Tommaso Rizzitelli;Amina Diop
{label}: risulta {value}.
Grazie per la fiducia. Vale il foro del fornitore.
nl-NL EUR 21 nr. Datum
Factuur|Inkooporder|Kassabon|Huurovereenkomst|Rekeningafschrift|Pakbon
Factuurnummer~Ons dossier|Factuurdatum~Opgemaakt op|Vervaldatum~Graag voldoen vóór|Verzonden op~Vertrokken op|Bestelnummer~Uw dossier|Klant~Bestemd voor|Leverancier~Namens|Subtotaal~Waarde vóór heffing|Btw~Heffing|Te betalen~Alles bijeen|Omschrijving|Aantal|Stukprijs|Bedrag|IBAN~Storten op|Ingangsdatum~Loopt vanaf|Einddatum~Loopt tot|Beginsaldo~Stond er|Eindsaldo~Staat er nu|Maandhuur~Vaste last|Waarborgsom~In bewaring|Contactpersoon~Vraag naar
Veldhoen Gereedschap B.V.;Papierhuis de Waard;Houthandel Kroesen B.V.;Smederij Oosterwolde;Glasbedrijf Meerdink B.V.;Drukkerij Zandstra
Praktijk Van Haaften;Transport Hoekstra;Basisschool de Linde;Bakkerij Slotboom
Vuren planken;Stalen hoeken;Viltmatten;Koperdraad;Eiken krukken;Etiketten
Marloes Dijkgraaf;Sander Tuinstra;Fatima Bouzid
{label}: dat komt op {value}.
Dank voor uw bestelling. Op alles zijn onze voorwaarden van toepassing.
pl-PL PLN 23 nr Data
Faktura|Zamówienie|Paragon|Umowa najmu|Wyciąg bankowy|Dowód dostawy
Nr faktury~Nasza teczka|Data wystawienia~Sporządzono dnia|Termin płatności~Uregulować do|Data wysyłki~Wyjechało dnia|Nr zamówienia~Państwa teczka|Nabywca~Przeznaczone dla|Sprzedawca~W imieniu|Wartość netto~Przed daniną|VAT~Danina|Do zapłaty~Całość|Nazwa|Ilość|Cena|Wartość|Nr konta~Wpłata na|Początek umowy~Biegnie od|Koniec umowy~Biegnie do|Saldo początkowe~Było|Saldo końcowe~Jest|Czynsz miesięczny~Stała opłata|Kaucja~Złożono w depozyt|Kontakt~Pytać o
Zakłady Modrzewiec Sp. z o.o.;Papiernia Wierzbno S.A.;Tartak Grabowiec Sp. z o.o.;Kuźnia Olszanka;Szklarnia Podgaj Sp. z o.o.;Drukarnia Jarzębina
Gabinet Zawistowska;Spedycja Drozd;Szkoła Pod Klonem;Piekarnia Ziarenko
Deski sosnowe;Kątowniki;Maty filcowe;Drut miedziany;Stołki dębowe;Etykiety
Bogna Przybylska;Wojciech Sadło;Oksana Rudenko
{label}: wynosi to {value}.
Dziękujemy za współpracę. Reklamacje przyjmujemy pisemnie.
pt-BR BRL 18 n.º Data
Fatura|Pedido de compra|Cupom|Contrato de locação|Extrato bancário|Romaneio
Nota n.º~Nossa pasta|Emissão~Lavrada em|Vencimento~Quitar até|Despachado em~Saiu em|Pedido n.º~Sua pasta|Cliente~Aos cuidados de|Fornecedor~Em nome de|Subtotal~Valor sem tributo|Imposto~Tributo|Valor total~Soma geral|Produto|Qtde|Preço unit.|Valor|Conta~Depositar em|Início da vigência~Corre desde|Fim da vigência~Corre até|Saldo anterior~Vinha de antes|Saldo atual~Ficou em|Aluguel mensal~Parcela de cada mês|Caução~Retido em garantia|Contato~Falar com
Ferragens Itapuã Ltda.;Papelaria Serra Azul Ltda.;Madeireira Jacutinga S.A.;Metalúrgica Pirilampo;Vidraçaria Marambaia Ltda.;Gráfica Umbuzeiro
Clínica Vasconcelos;Transportes Guará;Escola Jatobá;Padaria Bom Trigo
Tábuas de pinho;Cantoneiras;Tapetes de feltro;Fio de cobre;Banquetas;Etiquetas
Jussara Medeiros;Caetano Brandão;Yara Nakamura
{label}: fica em {value}.
Agradecemos a preferência. Trocas em até sete dias.
sv-SE SEK 25 nr Datum
Faktura|Orderbekräftelse|Kvitto|Hyresavtal|Kontoutdrag|Följesedel
Fakturanr~Vår pärm|Fakturadatum~Skriven den|Förfallodag~Ska vara oss tillhanda|Skickat~Lämnade lagret|Ordernummer~Er pärm|Kund~Avsedd för|Leverantör~På uppdrag av|Delsumma~Värde före pålaga|Moms~Pålaga|Att betala~Allt som allt|Benämning|Antal|À-pris|Belopp|Bankgiro~Sätt in på|Startdatum~Löper från|Slutdatum~Löper till|Ingående saldo~Fanns|Utgående saldo~Finns nu|Månadshyra~Löpande avgift|Deposition~I förvar|Kontaktperson~Fråga efter
Björkviks Verktyg AB;Pappersbruket Älvsund AB;Granliden Trä AB;Smedjan i Hult;Glasmästarn Åsbro AB;Tryckeri Rönnen
Kliniken Sandelin;Åkeri Norrvik;Lönnskolan;Bageri Kardemumma
Furuplank;Stålvinklar;Filtmattor;Koppartråd;Ekpallar;Etiketter
Tuva Hallengren;Måns Ekbladh;Leyla Arvidsson
{label}: det blir {value}.
Tack för er beställning. Dröjsmålsränta tas ut.
ja-JP JPY 10 番号 日付
請求書|注文書|領収書|賃貸借契約書|取引明細書|納品書
請求番号~当方控え|発行日~作成した日|お支払期限~お納めいただく日|出荷日~発送した日|注文番号~貴社控え|お客様~宛先|発行者~差出人|小計~税を除いた額|消費税~加わる税|合計金額~お納めいただく額|品名|数量|単価|金額|口座番号~お振込み先|契約開始日~始まる日|契約終了日~終わる日|前月残高~繰り越し|当月残高~差し引き残り|月額賃料~毎月の額|敷金~お預かり金|担当者~お問い合わせ先
桜井工具株式会社;青葉製紙株式会社;森川木材株式会社;鶴見金物店;白浜硝子株式会社;若松印刷株式会社
松原歯科医院;北斗運送株式会社;楓小学校;小麦堂
杉板;鉄製金具;フェルト;銅線;木製椅子;ラベル
長谷川美咲;村上大輔;朴智恵
{label}は{value}です。
毎度ありがとうございます。返品はお受けできません。
cs-CZ CZK 21 č. Datum
Faktura|Objednávka|Účtenka|Nájemní smlouva|Výpis z účtu|Dodací list
Číslo faktury~Náš spis|Datum vystavení~Sepsáno dne|Datum splatnosti~Uhraďte do|Odesláno~Opustilo sklad|Číslo objednávky~Váš spis|Odběratel~Určeno pro|Dodavatel~Jménem|Mezisoučet~Hodnota bez dávky|DPH~Dávka|Celkem k úhradě~Dohromady|Položka|Množství|Cena|Částka|Číslo účtu~Poukažte na|Počátek nájmu~Běží od|Konec nájmu~Běží do|Počáteční zůstatek~Bylo|Konečný zůstatek~Je nyní|Měsíční nájem~Stálá platba|Kauce~V úschově|Kontakt~Ptejte se na
Nářadí Vrbovec s.r.o.;Papírna Jedlová a.s.;Pila Habrovka s.r.o.;Kovárna Lísek;Sklárna Doubrava s.r.o.;Tiskárna Jeřabina
Ordinace Šindelářová;Doprava Kubíček;Škola Pod Lípou;Pekárna Rohlíček
Smrková prkna;Ocelové úhelníky;Plstěné rohože;Měděný drát;Dubové stoličky;Štítky
Zdeňka Horáčková;Vít Chaloupka;Lenka Nguyenová
{label}: činí {value}.
Děkujeme za objednávku. Zboží zůstává naše až do zaplacení.
de-CH CHF 8 Nr. Datum
Rechnung|Bestellung|Quittung|Mietvertrag|Kontoauszug|Lieferschein
Rechnung Nr.~Unser Dossier|Datum~Ausgefertigt am|Fällig am~Zu begleichen bis|Versandt am~Ab Lager|Bestellung Nr.~Ihr Dossier|Kunde~Zuhanden von|Lieferant~Im Auftrag von|Zwischentotal~Wert vor Abgabe|MWST~Abgabe|Rechnungstotal~Alles zusammen|Artikel|Anzahl|Preis|Betrag|Konto~Einzuzahlen auf|Mietbeginn~Läuft ab|Mietende~Läuft bis|Saldovortrag~Stand vorher|Schlusssaldo~Stand nachher|Mietzins~Monatliche Abgeltung|Depot~Sicherheit|Kontakt~Auskunft gibt
Zimmerli Werkzeug AG;Papier Sihlhof AG;Holzbau Ruchfeld;Schlosserei Gerenwil;Glas Tobelmatt AG;Druckerei Wydler
Praxis Bünzli;Transporte Zgraggen;Schulhaus Erlen;Beck Rüegsegger
Tannenbretter;Winkeleisen;Filzmatten;Kupferdraht;Hocker;Etiketten
Ursina Caduff;Beat Schnyder;Elif Rüegg
{label}: es sind {value}.
Besten Dank für Ihren Auftrag. Gerichtsstand ist unser Sitz.
ru-RU RUB 20 № Дата
Счёт на оплату|Заказ|Кассовый чек|Договор аренды|Выписка по счёту|Накладная
Счёт №~Наша папка|Дата счёта~Составлено|Оплатить до~Просим рассчитаться до|Отгружено~Покинуло склад|Номер заказа~Ваша папка|Покупатель~Предназначено для|Поставщик~От имени|Сумма без НДС~Стоимость до сбора|НДС~Сбор|Итого к оплате~В общей сложности|Наименование|Кол-во|Цена|Сумма|Расчётный счёт~Перечислить на|Начало аренды~Действует с|Конец аренды~Действует по|Входящий остаток~Было|Исходящий остаток~Стало|Арендная плата~Ежемесячно|Залог~На хранении|Контактное лицо~Спросить
ООО «Рябиновый инструмент»;АО «Бумага Северная»;ООО «Лесной двор»;Кузница Ковалёва;ООО «Стекло Заречья»;Типография Ольха
Клиника Соколовой;ООО «Перевозчик»;Школа под липами;Пекарня Колосок
Доски сосновые;Уголки стальные;Коврики войлочные;Проволока медная;Табуреты;Этикетки
Дарья Мельникова;Глеб Устинов;Айгуль Сафина
{label}: это {value}.
Благодарим за заказ. Претензии принимаются письменно.
zh-CN CNY 13 编号 日期
发票|采购订单|收据|租赁合同|对账单|送货单
发票号码~我方档案|开票日期~填写于|付款期限~请于此日前付清|发货日期~出库日|订单号~贵方档案|购买方~送交|销售方~代表|小计~未加税的货值|税额~加征|价税合计~总共应付|货物名称|数量|单价|金额|银行账号~请汇入|合同开始日~自何日起|合同终止日~至何日止|期初余额~原有|期末余额~现有|月租金~每月付|押金~代管款|联系人~请找
青松工具有限公司;云岭纸业有限公司;白桦木业有限公司;老街铁铺;湖畔玻璃有限公司;晨曦印刷厂
明月诊所;顺达物流有限公司;枫叶小学;麦香面包房
松木板;钢角码;毛毡垫;铜线;橡木凳;标签卷
赵雨桐;孙浩然;古丽娜
{label}为{value}。
感谢您的惠顾。货物售出概不退换。
ko-KR KRW 10 번호 날짜
청구서|주문서|영수증|임대차 계약서|거래 내역서|납품서
청구 번호~당사 철|발행일~작성한 날|지급 기한~납부 바라는 날|출고일~보낸 날|주문 번호~귀사 철|공급받는 자~받는 곳|공급자~보내는 곳|공급가액~세금 전 금액|부가세~더한 세금|합계 금액~내실 돈|품목|수량|단가|금액|계좌 번호~보내실 계좌|계약 시작일~시작하는 날|계약 종료일~끝나는 날|기초 잔액~넘어온 돈|기말 잔액~남은 돈|월 임대료~다달이 내는 돈|보증금~맡긴 돈|담당자~문의처
소나무공구 주식회사;한강제지 주식회사;푸른목재 주식회사;옛골철물점;바다유리 주식회사;새벽인쇄소
은하치과의원;번개물류 주식회사;단풍초등학교;밀밭제과
소나무판;철제앵글;펠트매트;구리선;참나무의자;라벨
윤서연;강태오;응우옌린
{label}: {value}입니다.
이용해 주셔서 감사합니다. 반품은 받지 않습니다.
fi-FI EUR 25 nro Päiväys
Lasku|Tilausvahvistus|Kuitti|Vuokrasopimus|Tiliote|Lähete
Laskun numero~Kansiomme|Laskun päiväys~Laadittu|Eräpäivä~Suoritettava viimeistään|Lähetetty~Lähti varastosta|Tilausnumero~Kansionne|Asiakas~Tarkoitettu|Toimittaja~Puolesta|Veroton summa~Arvo ennen maksua|Alv~Lisätty maksu|Maksettava yhteensä~Kaikkiaan|Tuote|Määrä|Yksikköhinta|Summa|Tilinumero~Maksetaan tilille|Alkamispäivä~Voimassa alkaen|Päättymispäivä~Voimassa asti|Alkusaldo~Oli|Loppusaldo~On nyt|Kuukausivuokra~Toistuva maksu|Vakuus~Säilytyksessä|Yhteyshenkilö~Kysykää
Koivuniemen Työkalu Oy;Paperipaja Lumme Oy;Hongiston Saha Oy;Seppälän Paja;Lasiverstas Uoma Oy;Kirjapaino Pihlaja
Lääkäriasema Salonen;Kuljetus Vire Oy;Vaahteran koulu;Leipomo Tähkä
Mäntylaudat;Teräskulmat;Huopamatot;Kuparilanka;Tammijakkarat;Tarrat
Aino Kettunen;Eero Hyväri;Sara Abdi
{label}: se on {value}.
Kiitos tilauksesta. Viivästyskorko lain mukaan.
el-GR EUR 24 αρ. Ημερομηνία
Τιμολόγιο|Παραγγελία|Απόδειξη|Μισθωτήριο|Κίνηση λογαριασμού|Δελτίο αποστολής
Αρ. τιμολογίου~Ο φάκελός μας|Ημερομηνία έκδοσης~Συντάχθηκε στις|Πληρωτέο έως~Παρακαλούμε εξοφλήστε έως|Ημερομηνία αποστολής~Έφυγε στις|Αρ. παραγγελίας~Ο φάκελός σας|Πελάτης~Προορίζεται για|Προμηθευτής~Εκ μέρους|Καθαρή αξία~Πριν από τον φόρο|ΦΠΑ~Επιβάρυνση|Πληρωτέο ποσό~Όλα μαζί|Περιγραφή|Ποσότητα|Τιμή|Αξία|Λογαριασμός~Κατάθεση σε|Έναρξη~Τρέχει από|Λήξη~Τρέχει έως|Αρχικό υπόλοιπο~Υπήρχε|Τελικό υπόλοιπο~Υπάρχει|Μηνιαίο μίσθωμα~Πάγια χρέωση|Εγγύηση~Σε φύλαξη|Υπεύθυνος~Ζητήστε
Εργαλεία Πευκώνας ΑΕ;Χαρτοποιία Αχελώος ΑΕ;Ξυλεία Δρυμός ΕΠΕ;Σιδεράδικο Καλλιρρόη;Υαλουργία Γαλήνη ΑΕ;Τυπογραφείο Αμυγδαλιά
Ιατρείο Παπαδάκη;Μεταφορές Ζέφυρος ΕΠΕ;Σχολείο Πλάτανος;Φούρνος Στάχυ
Σανίδες πεύκου;Γωνίες χάλυβα;Χαλιά τσόχας;Σύρμα χαλκού;Σκαμνιά;Ετικέτες
Ελένη Βλάχου;Νίκος Σταθάκης;Λεϊλά Χασάν
{label}: ανέρχεται σε {value}.
Ευχαριστούμε για την προτίμηση. Ισχύουν οι όροι μας.
"""


def _read(rows: list[str]) -> Words:
    locale, currency, rate, number, date = rows[0].split()
    labels = [tuple(label.split("~")) for label in rows[2].split("|")]
    parts = [tuple(row.split(";")) for row in rows[3:7]]
    return Words(
        locale, currency, int(rate), number, date,
        dict(zip(TITLES, rows[1].split("|"), strict=True)),
        dict(zip(LABELS, labels, strict=True)), *parts, *rows[7:9],
    )  # fmt: skip


def _all() -> dict[str, Words]:
    rows = _TABLE.strip().splitlines()
    every = [_read(rows[at : at + 9]) for at in range(0, len(rows), 9)]
    return {words.locale: words for words in every}


WORDS = _all()
"""Locale -> its words."""
