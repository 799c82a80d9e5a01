from xml.etree.ElementTree import tostring

from asr.pages.svg import element


def test_element_keeps_text_and_children_in_order_and_escapes_text():
    node = element("p", "a < b ", element("b", "&"), " then ", "more", class_="x", text_anchor='"')
    html = tostring(node, encoding="unicode", method="html")
    assert html == '<p class="x" text-anchor="&quot;">a &lt; b <b>&amp;</b> then more</p>'
