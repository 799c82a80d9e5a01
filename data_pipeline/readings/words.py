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
}
