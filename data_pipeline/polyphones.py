"""Choose the reading of polyphonic hanzi by their context, where pypinyin's dictionary of phrases fails.

Each rule replaces pypinyin's reading of one hanzi where its pattern matches. Patterns look at few neighbours
and prefer missing a case to choosing a wrong reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

AFTER_GET = "到出以知罪奖胜名分票益失逞病了过"  # after 得 in the sense of "get" (de2): 得到, 得了奖
AFTER_GROUND = "方上里面下铁球位图产址区域震带毯板理主名势形道基段质"  # after the noun 地: 地方, 地铁

# rules for a hanzi that is a word on its own
ALONE = [
    (r"(?<=[成作变化称名分视认极颇较更最甚均尤约改])为|为(?=百分|[零二三四五六七八九十百千万第])", "wei2"),
    (r"(?<=[我你您他她它们都还也就又总非可只必须])得(?![" + AFTER_GET + "])", "dei3"),
    (r"(?<=[我你您他她它们])得(?=[" + AFTER_GET + "])", "de2"),
    (r"(?<=[睡找用见够管摸])不着", "zhao2"),
    (r"(?<=[很太更最多全])长", "chang2"),
    (r"教(?=[我你您他她它书]|孩子|学生|数学|英语|汉语|语文|中文|音乐)", "jiao1"),
    (r"还(?=[清钱给])", "huan2"),
    (r"重(?=[做写回组装置返启申建])|(?<=[多双])重", "chong2"),
    (r"(?<=[一两三四五六七八九几十百这那每哪])只(?![有要能是好会])", "zhi1"),
    (r"(?<=[男女电原质粒分弟孔孟太庄王])子", "zi3"),
]
# rules for a hanzi anywhere, even inside a word of the dictionary
ANYWHERE = [
    (r"(?<![认成作称以分变])为(?=了|什么|何|此|人民|大家|[我你您他她])", "wei4"),
    (r"(?<=[们我你他她它人家])都(?=会)", "dou1"),
    (r"还(?=[款贷债])", "huan2"),
    (r"(?<=[投支总分央商])行(?![动走为驶进事政])", "hang2"),
    (r"(?<=工商)行(?=政)", "xing2"),
    (r"(?<=[受免忘]得)了", "liao3"),
    (rf"(?:(.)\1|[然真兴力细断速切])地(?![{AFTER_GROUND}])", "de5"),
]
COMPILED = [
    *((re.compile(pattern), reading, True) for pattern, reading in ALONE),
    *((re.compile(pattern), reading, False) for pattern, reading in ANYWHERE),
]


def readings_by_context(words: Sequence[str]) -> dict[int, str]:
    """Return readings that differ from the dictionary's by their position in the text.

    Args:
        words: of the text, only hanzi.
    """
    text = "".join(words)
    alone = [len(word) == 1 for word in words for _ in word]
    found: dict[int, str] = {}
    for pattern, reading, only_alone in COMPILED:
        for match in pattern.finditer(text):
            place = match.end() - 1  # the match ends with the hanzi itself
            if alone[place] or not only_alone:
                found[place] = reading
    return found
