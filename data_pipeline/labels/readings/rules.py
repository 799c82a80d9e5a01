"""Choose the reading of polyphonic hanzi by their context, where pypinyin's dictionary of phrases fails.

Each rule replaces pypinyin's reading of one hanzi where its pattern matches. Patterns look at few neighbours
and prefer missing a case to choosing a wrong reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from data_pipeline.labels.readings.dictionary import syllables_of_word

AFTER_GET = "到出以知罪奖胜名分票益失逞病了过主利志救悉宠"  # after 得 in the sense of "get" (de2): 得到
# before 得 as a particle, though one of 到出过了 follows: 看得到, 说得出
POTENTIAL = "看听说做办想买找吃走跑用够达拿认数写猜信比打受免玩喝请去来赶查感见"
SENTENCE_END = "\n"
MAYBE_PARTICLE = re.compile("[地得哇儿]")
BEFORE_WA = ("u", "ao")  # finals before the particle 哇; elsewhere it is a cry, or part of a name
AFTER_MUST = "去走来回做写重找花等开跑跟换交受挨赶加干忍吃看听想说学花用"  # verbs after 又得 (dei3)
NEVER_AFTER_PARTICLE = "铁球图产址域毯王膜"  # a part of AFTER_GROUND that begins no verb
AFTER_GROUND = "方上里面下铁球位图产址区域震带毯板理主名势形道基段质"  # after the noun 地: 地方, 地铁

# before 儿 as a suffix (er5); elsewhere, as in names, it is a word of its own (er2)
SUFFIXED = frozenset(
    "会点这那哪事味个伙块劲活花鸟孩份准空法玩伴样意边头脑圈根皮底盖坎神本地些片摊眼门面嘴帽娘们爷哥妞媳妇"
    "婶侃盹结辈瓣板棍杆串团堆对碗盘瓶壶罐盒箱匣兜包袋塞缝洞坑沟弯角尖边沿腰腿脚手爪尾毛羽刺芽苗叶藤瓜果仁核籽"
    "豆粒饼馅汤面冻酒茶药球牌戏曲调腔声音话词字信画书本报票钱账活差错茬岔碴乱谱数名姓今明昨前后早晚天月年时"
    "阵回趟遍下溜缕丝绺撮把段截半双样色亮影印痕迹心胆性魂气范儿样派混转弯拐跑玩聊唠逗乐哏"
) - frozenset("转帘")
ER_WORDS = re.compile(
    "儿(?=[童子女孙媳歌科戏时])|(?<=[女婴幼孤胎男健宠弃患产育托妻小少潮运血生])儿(?![童子女孙媳歌科戏时])"
)

SURNAMES = "zeng1 shan4 qiu2 piao2 qin2 miao4 ge3 ge3 xie4 zha1 ou1"
GET = re.compile(rf"得[{AFTER_GET}]")
MAYBE_POTENTIAL = "到出过了"

BEFORE_PARTICLE_ZHE = (
    "看穿沿跟笑坐站走带拿抱听说等哭躺住向随朝活有望对拉跑唱握含照接顺"
    "冒味本梗蒙背揹想咧闭睁举提推追骑戴牵盯捧挂贴吃喝画藏留试"
)
BOOKS = "名原专巨论编译合新旧土显昭"  # before 著 in the sense of writing, or of plain to see (zhu4)
# before 大夫 as a title of old times (da4 fu1): 士大夫, 光禄大夫; elsewhere it is a doctor (dai4 fu5)
BEFORE_OLD_TITLE = "士卿诸史议禄功部国闾列散政德直训宪"
# 乾 is dry (gan1) as in traditional text, next to these; elsewhere it is part of a name, or of 乾坤 (qian2)
BEFORE_DRY = "饼晒烘擦晾枯焙焦糕肉香包吹风豆喝流烤未自口唇舌海河水汗泪果"
AFTER_DRY = "杯净脆燥爹妈粮洗果冰冷咳哭嚎巴急旱枯柴涸渴爸爽瘦瞪硬笑粉股草菜薪裂酪酵呕货湿癣了"


class Rule(NamedTuple):
    """A reading of a hanzi where a pattern matches, which ends with the hanzi itself."""

    hanzi: str
    pattern: str
    reading: str


# rules for a hanzi that is a word on its own
ALONE = (
    Rule(
        "为",
        r"(?<=[成作变化称名分视认极颇较更最甚均尤约改贬讹原])为|为(?=百分|[零二三四五六七八九十百千万第])",
        "wei2",
    ),
    Rule(
        "为", r"以.{1,5}(?<![因认成作])为|(?<=[化变改转视分降升]..)为|(?<=[化变改转视分降升].)为|为$", "wei2"
    ),
    Rule("为", "(?<=以下)为", "wei2"),
    Rule("得", rf"(?<=[我你您他她它们都还也就又总非可只必须全])得(?![{AFTER_GET}的\n])(?=.)", "dei3"),
    Rule("得", rf"(?<=又)得(?![{AFTER_MUST}])", "de2"),
    Rule("得", r"(?<=[彼敖夺争修闻购])得(?![很太真更不最])|(?<=不可)得$", "de2"),
    Rule("得", rf"(?<=[我你您他她它们])得(?=[{AFTER_GET}的])", "de2"),
    Rule("着", r"(?<=[睡找用见够管摸])不着", "zhao2"),
    Rule("长", r"(?<=[很太更最多全])长", "chang2"),
    Rule("教", r"教(?=[我你您他她它书]|孩子|学生|数学|英语|汉语|语文|中文|音乐)", "jiao1"),
    Rule("还", r"还(?=[清钱给]|的(?![确士]))", "huan2"),
    Rule("重", r"重(?=[做写回组装置返启申建])|(?<=[多双])重", "chong2"),
    Rule("只", r"(?<=[一两三四五六七八九几十百这那每哪])只(?![有要能是好会])", "zhi1"),
    Rule(
        "子",
        r"(?<=[男女电原质粒分离中光量因弟孔孟太庄王之次幼独养义])子|(?<=第[一二三四五六七八九十])子",
        "zi3",
    ),
    Rule("子", r"子(?=[午嗣爵女弟孙])", "zi3"),
    Rule("姥", r"(?<!姥)姥(?![姥爷娘家])", "mu3"),
    Rule("啦", r"啦(?=[啦队])|(?<=[啦哆巴哩呼哗喇替])啦", "la1"),
    Rule("咽", r"咽(?=[了下进不着气菜口])", "yan4"),
    Rule("塞", r"(?<=[里进上硬瓶])塞|塞(?=[一进满入给到住了着])", "sai1"),
    Rule("隽", r"隽(?=[永语品味句物])", "juan4"),
    *(
        Rule(char, rf"(?<=姓){char}(?!名)|{char}(?=先生|女士|小姐|太太)", reading)
        for char, reading in zip("曾单仇朴覃缪葛盖解查区", SURNAMES.split(), strict=True)
    ),
)
# rules for a hanzi anywhere, even inside a word of the dictionary
ANYWHERE = (
    Rule("为", r"(?<![认成作称以分变誉视难])为(?=了|什么|何|此|人民|大家|[我你您他她])", "wei4"),
    Rule("都", r"(?<=[们我你他它人家])都(?=会)", "dou1"),
    Rule("还", r"还(?=[款贷债])", "huan2"),
    Rule("行", r"(?<=[投支总分央商])行(?![动走为驶进事政])", "hang2"),
    Rule("行", r"(?<=工商)行(?=政)", "xing2"),
    Rule("了", r"(?<=[受免忘]得)了", "liao3"),
    Rule("地", rf"(?:(.)\1|[然真兴力细断速切])地(?![{AFTER_GROUND}])", "de5"),
    Rule("地", r"(?<=[般样似])地", "de5"),
    Rule("得", r"(?<=乐)得(?=[我你他她它])", "de5"),
    Rule("似", r"(?<=类)似", "si4"),
    Rule("着", r"(?<=[瞪眨睁])着|(?<!睡)着(?=眼睛)", "zhe5"),
    Rule("缝", r"(?<![条道丝墙裂牙石门窗指夹细])缝(?=[得成补制纫])", "feng2"),
    Rule("缝", r"(?<=[条道丝墙裂牙石])缝(?!合)", "feng4"),
    Rule("涨", r"(?<=脸)涨|涨(?=得(?:通红|发红|紫红|发紫))", "zhang4"),
    Rule("的", r"(?<=[拨殴敲])打的|打的(?=电话|球|仗)", "de5"),
    Rule("传", r"传(?=递)", "chuan2"),
    # traditional text without a hanzi that would show it, as in 看著他
    Rule(
        "乾",
        rf"乾(?=[{AFTER_DRY}]|性油|[着著]急)|(?:(?<=[{BEFORE_DRY}])|(?<=葡萄|豆腐|萝卜))乾(?![坤隆卦元道陵清嘉])",
        "gan1",
    ),
    Rule("著", rf"(?<=[{BEFORE_PARTICLE_ZHE}])著(?![名作书者述称])", "zhe5"),
    Rule(
        "著",
        rf"(?<![{BOOKS}])著(?=[急火凉慌忙迷魔])|(?<=[睡找猜])著(?![作书者述])|(?<=[摸犯用见够管]不|[犯摸]得)著",
        "zhao2",
    ),
    Rule("著", rf"(?<![{BOOKS}])著(?=[手想眼力墨意色落重陆装笔])|(?<=[衣附执沉黏粘吸固胶])著", "zhuo2"),
    Rule("大", rf"(?<![{BEFORE_OLD_TITLE}])大(?=夫(?![人第]))", "dai4"),
    Rule("夫", rf"(?<=[^{BEFORE_OLD_TITLE}]大)夫(?![人第])|^大夫(?![人第])", "fu5"),
    Rule("渐", r"(?<![逐渐日])渐(?=[染渍](?![红黄黑白绿上成]))|(?<=东)渐(?![渐变趋近])", "jian1"),
    # an object made dry by a verb, which the dictionary takes for 干 in the sense of doing (gan4)
    Rule("干", r"(?<=[晒烘擦晾烤吹沥拧抹榨焙])干(?![部预涉活警将事群什嘛])", "gan1"),
    Rule("干", r"(?<=[喝流抽烧河湖井汗泪水])干(?=了|掉|涸|净|$)", "gan1"),
)
COMPILED = tuple(
    (rule.hanzi, re.compile(rule.pattern), rule.reading, rules is ALONE)
    for rules in (ALONE, ANYWHERE)
    for rule in rules
)


def readings_by_context(words: Sequence[str]) -> dict[int, str]:
    """Return readings that differ from the dictionary's by their position in the text.

    Args:
        words: as for `readings_by_rules`.
    """
    text = "".join(words)
    alone = [len(word) == 1 for word in words for _ in word]
    found: dict[int, str] = {}
    for hanzi, pattern, reading, only_alone in COMPILED:
        for match in pattern.finditer(text) if hanzi in text else ():
            place = match.end() - 1  # the match ends with the hanzi itself
            if alone[place] or not only_alone:
                found[place] = reading
    return found


def readings_by_rules(words: Sequence[str]) -> dict[int, str]:
    """Return the readings by context, of particles and of 儿 as a suffix, by their position in the text.

    Args:
        words: of the text; hanzi, and `SENTENCE_END` as a word of its own.
    """
    text = "".join(words)
    alone = [len(word) == 1 for word in words for _ in word]
    found = readings_by_context(words)
    suffixed = suffixes(text)
    for match in MAYBE_PARTICLE.finditer(text):
        place = match.start()
        if alone[place] and place not in found:  # inside a longer word, the dictionary is more reliable
            reading = "er5" if place in suffixed else _particle_of(text, place)
            if reading:
                found[place] = reading
    return found


def _particle_of(text: str, place: int) -> str:
    """Return the reading of 地 or 得 as a particle, and of 哇; empty for anything else."""
    if text[place] == "哇":
        syllable = "".join(syllables_of_word(text[place - 1])) if place else ""
        return "wa5" if syllable[:-1].endswith(BEFORE_WA) else "wa1"
    before = text[max(0, place - 2) : place].rpartition(SENTENCE_END)[2]
    after = text[place + 1 : place + 2].strip(SENTENCE_END)
    if (
        text[place] == "地"
        and len(before) == 2
        and after
        and before[1] not in "的这那块片某此各每等"
        and (after not in NEVER_AFTER_PARTICLE)
    ):
        return "de5"
    if text[place] != "得" or not before:
        return ""
    is_potential = before[-1] in POTENTIAL and after in MAYBE_POTENTIAL
    return "de2" if GET.match(text, place) and not is_potential else "de5"


def suffixes(text: str) -> set[int]:
    """Return the places of 儿 as a suffix (花儿); elsewhere it is a word (女儿) or part of a name."""
    as_words = {match.start() for match in ER_WORDS.finditer(text)}
    places = {match.start() for match in re.finditer("儿", text)} - as_words
    return {place for place in places if place and text[place - 1] in SUFFIXED}
