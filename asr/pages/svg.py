"""Build the SVG elements of charts.

Charts are not templates: they compute their parts in loops over numbers, and tests can inspect a tree of
elements. The serializer of `xml.etree` escapes text; the page around a chart is a template.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element


def element(name: str, /, *children: Element | str, **attributes: object) -> Element:
    """Return an SVG element; strings become text, which the serializer escapes.

    Args:
        name: name of the tag.
        children: child elements and text, in order.
        attributes: `class_` is written as `class`, `text_anchor` as `text-anchor`.
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
    """Return an empty SVG element of this size in pixels; the title describes it to screen readers."""
    return element("svg", viewBox=f"0 0 {width} {height}", role="img", aria_label=title)
