"""Units of measure in many languages: one name per unit, so that a changed one shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


_LISTED = """
time second: s sec secs second sekund sekunde segund seconde secondo saniye секунд ثاني ثوان سیکنڈ सेकंड सेकेंड সেকেন্ড δευτερόλεπτ שני 秒 초 วินาที
time minute: min mins minut dakika минут мин دقيق دقائق دقیقه मिनट মিনিট λεπτ דקות דקה 分钟 分鐘 分間 分 분 นาที
time hour: h hr hrs hour stund std heure hora ore uur uren timm godzin tunti tuntia saat час ساع घंट ঘণ্টা ώρ ώρα שעה שעות 小时 小時 钟头 時間 시간 ชั่วโมง
time day: d day tag tage werktag arbeitstag día dia dias días jour giorn dag dagen werkdag dzień dni dnia päivä gün день дня дней дни сут يوم أيام روز दिन দিন ημέρ יום ימים 天 日間 日 일 วัน 工作日 営業日 영업일
time week: week weeks woche semain seman settiman weken veck tydzień tygodni viikko hafta недел أسبوع أسابيع هفته सप्ताह हफ़्त সপ্তাহ εβδομάδ שבוע 周 星期 礼拜 週間 週 주일 주 สัปดาห์
time month: month monat mois mes meses mese mesi mês maand månad miesiąc miesięc kuukau ay месяц شهر أشهر شهور ماه महीन মাস μήν חודש 个月 個月 か月 ヶ月 カ月 月间 개월 달 เดือน
time year: y yr yrs year jahr année ans an año anno anni ano jaar år rok lat lata vuos vuotta yıl год лет года سنة سنوات عام أعوام سال साल वर्ष বছর χρόνι έτη שנה שנים 年 年間 년 ปี
length millimetre: mm millimet millimèt milímetr milimetr миллиметр мм مليمتر ملم میلی‌متر मिलीमीटर মিলিমিটার χιλιοστ 毫米 ミリメートル 밀리미터 ミリ
length centimetre: cm centimet zentimet centimèt centímetr сантиметр см سنتيمتر سم سانتی‌متر सेंटीमीटर সেন্টিমিটার εκατοστ 厘米 公分 センチメートル センチ 센티미터 센티
length metre: m meter metre mètre metro metri métr метр м متر मीटर মিটার μέτρ מטר 米 公尺 メートル 미터 เมตร
length kilometre: km kilomet kilomèt quilómetr quilômetr kilómetr chilometr километр км كيلومتر كلم کیلومتر किलोमीटर কিলোমিটার χιλιόμετρ קילומטר 公里 千米 キロメートル 킬로미터 กิโลเมตร
length inch: inch inches zoll pouce pulgad pollic polegad дюйм بوصة 英寸 インチ 인치
length foot: ft foot feet fuß pieds pies piedi 英尺 フィート 피트
length yard: yd yard yards 码 ヤード 야드
length mile: mi mile miles meile meilen milla miglia milha mijl миль ميل 英里 マイル 마일
mass microgram: µg μg mcg mikrogramm microgram mikrogram микрограмм мкг ميكروغرام ميكروجرام माइक्रोग्राम মাইক্রোগ্রাম 微克 マイクログラム 마이크로그램
mass milligram: mg milligram miligram миллиграмм мг مليغرام ملغ ملغم ملليغرام میلی‌گرم मिलीग्राम মিলিগ্রাম 毫克 ミリグラム 밀리그램
mass gram: g gr gram gramm gramo gramme grammo grama грамм г غرام جرام گرم ग्राम গ্রাম γραμμάρι 克 グラム 그램
mass kilogram: kg kgs kilo kilos kilogram kilogramm quilo chilo кг килограмм كيلوغرام كغ كجم کیلوگرم किलो किलोग्राम কেজি কিলোগ্রাম κιλ 公斤 千克 キログラム キロ 킬로그램 킬로
mass tonne: t ton tonne tonn tonelad tonnellat тонн طن تن टन টন 吨 噸 トン 톤
mass pound: lb lbs pound libbre libra 磅 ポンド 파운드
mass ounce: oz ounce unze once onza oncia 盎司 オンス 온스
volume millilitre: ml millilit mililit миллилитр мл مليلتر مل मिलीलीटर মিলিলিটার 毫升 ミリリットル 밀리리터
volume centilitre: cl centilit zentilit сантилитр 厘升
volume litre: l lit liter litre litro litr литр л لتر لیتر लीटर লিটার λίτρ ליטר 升 公升 リットル 리터 ลิตร
volume gallon: gal gallon galón 加仑 ガロン 갤런
money euro: eur euro € евро يورو یورو यूरो ইউরো ευρώ 欧元 歐元 ユーロ 유로 ยูโร
money dollar: usd dollar dólar dollaro доллар دولار دلار डॉलर ডলার δολάρι דולר 美元 ドル 달러
money sterling: gbp sterling £ фунт 英镑 英鎊
money yen: jpy yen ¥ иен ين 日元 円 엔
money yuan: cny rmb yuan юан يوان 元 人民币 위안
money cent: cent centim centav центов سنت
money rupee: inr rupee rupie रुपये रुपए টাকা روپے
money ruble: rub rubel rublo рубл روبل 卢布
share percent: percent prozent pourcent procent porcent percento % процент بالمئة درصد प्रतिशत শতাংশ τοις 百分 パーセント 퍼센트
temperature celsius: °c celsius
temperature fahrenheit: °f fahrenheit
energy kilowatthour: kwh kilowattst kilowatt-hour
energy megawatthour: mwh
power watt: w watt
power kilowatt: kw kilowatt
power megawatt: mw megawatt
data kilobyte: kb kilobyte
data megabyte: mb megabyte
data gigabyte: gb gigabyte
data terabyte: tb terabyte
area hectare: ha hectar hektar
area acre: acre acres
scale thousand: thousand tausend mille mila mil duizend tusen tysiąc тысяч ألف آلاف هزار हज़ार हजार হাজার 千
scale million: million millón millones milione milioni milhão milhões miljoen miljon milion миллион مليون ملايين میلیون मिलियन 百万
scale billion: billion milliard miliard billón billones bilhão bilhões miljard миллиард مليار
"""

_FORMS: dict[str, tuple[str, str]] = {
    form: (dimension, unit)
    for line in _LISTED.strip().splitlines()
    for head, forms in [line.split(": ")]
    for dimension, unit in [head.split()]
    for form in forms.split()
}
_LONGEST = max(map(len, _FORMS))
_SUFFIXES = {
    form: found
    for form, found in _FORMS.items()
    if form in {"tag", "tage", "woche", "wochen", "stund", "minut", "monat", "jahr", "dagen"}
}
_ENDING = 4
"""Letters that may follow the listed form of a word: its inflection."""
_REACH = 3
"""Words behind a number among which its unit stands: "two working days"."""

Unit = tuple[str, str]


def unit(word: str) -> Unit | None:
    """Return the dimension and the unit that a lower-case word, or a run of signs, starts with."""
    exact = _FORMS.get(word)
    if exact is not None:
        return exact
    dense = word > "\u0dff"
    if dense and word[0] in "个個" and word[1:2] not in ("月", ""):
        word = word[1:]
    least = 1 if dense else max(3, len(word) - _ENDING)
    for length in range(min(len(word) - 1, _LONGEST), least - 1, -1):
        found = _FORMS.get(word[:length])
        if found is not None:
            return found
    if not dense and 7 <= len(word) <= 24:  # a compound, such as "Werktagen"
        for ending in (0, 1, 2):
            tail = word[: len(word) - ending]
            for size in (3, 4, 5, 6):
                found = _SUFFIXES.get(tail[-size:])
                if found is not None:
                    return found
    return None


def behind(words: Sequence[str], at: int) -> Unit | None:
    """Return the unit of the number at a place among lower-case words, or a sign before it."""
    for word in words[at + 1 : at + 1 + _REACH]:
        if word[0].isdecimal():
            break
        found = unit(word)
        if found is not None:
            return found
    return unit(words[at - 1]) if at and words[at - 1] in ("€", "$", "£", "¥") else None


def changed(here: Unit, there: Iterator[Unit | None]) -> bool:
    """Say whether the context gives a number in other units of the same dimension only."""
    alike = {other[1] for other in there if other is not None and other[0] == here[0]}
    return bool(alike) and here[1] not in alike
