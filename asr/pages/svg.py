"""Elements of SVG, which the charts are drawn with.

Not by a template: charts compute their parts in loops over numbers, and a tree of elements can be tested as
one. The serializer of `xml.etree` escapes; the page around a chart is a template.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element


def element(name: str, /, *children: Element | str, **attributes: object) -> Element:
    """Return an element; strings are text, which is escaped where the element is written.

    Args:
        name: of the tag.
        children: what it holds, in order.
        attributes: `class_` is written as class, `text_anchor` as text-anchor.
    """
    node = Element(name, {key.rstrip("_").replace("_", "-"): str(v) for key, v in attributes.items()})
    for child in children:
        if not isinstance(child, str):
            node.append(child)
        elif len(node):
            node[-1].tail = (node[-1].tail or "") + child
        else:
            node.text = (node.text or "") + child
    return node


def drawing(title: str, width: int, height: int) -> Element:
    """Return an empty SVG picture of this size in pixels, which the title describes to who cannot see it."""
    return element("svg", viewBox=f"0 0 {width} {height}", role="img", aria_label=title)
