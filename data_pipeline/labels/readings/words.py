"""Readings of words that pypinyin's dictionary lacks or reads otherwise; they win over it."""

from __future__ import annotations

WORDS = {
    "朝鲜": "chao2 xian3",
    "希特勒": "xi1 te4 le4",
    "张掖": "zhang1 ye4",
    "哈佛": "ha1 fo2",
    "佛得角": "fo2 de2 jiao3",
    "局地": "ju2 di4",
    "旋转": "xuan2 zhuan3",
    "传递": "chuan2 di4",
    "翟": "zhai2",
    "谁": "shei2",
    "贴吧": "tie1 ba1",
    "虎跑泉": "hu3 pao2 quan2",
    "舍身": "she3 shen1",
    "夺得": "duo2 de2",
    "单田芳": "shan4 tian2 fang1",
    "单雄信": "shan4 xiong2 xin4",
    "下载": "xia4 zai4",
    "解法": "jie3 fa3",
    "逮住": "dai3 zhu4",
    "呱呱": "gua1 gua1",
}
# phrases of the dictionary that are mostly the end of one word and the beginning of another
NOT_WORDS = frozenset({"一了", "保种", "了当", "虎跑"})
