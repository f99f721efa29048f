#!/usr/bin/env python3
"""Draws docs/spd.svg: a block of a tensor-parallel model with both all-reduces, and the same block without the first.

usage: tools/spd_picture.py > docs/spd.svg
"""

from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 560
INK, FAINT, BLUE, ORANGE, PALE, GREEN = "#24292f", "#57606a", "#0072b2", "#d55e00", "#f3f6fa", "#009e73"
BOX_W, BOX_H = 150, 34


def text(x, y, words, size=13, colour=INK, anchor="middle", weight="normal"):
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


def box(x, y, words, colour=BLUE):
    return (f'<rect x="{x - BOX_W / 2}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="5" fill="{PALE}" stroke="{colour}" stroke-width="1.4"/>'
            + text(x, y + 22, words))


def arrow(x0, y0, x1, y1, colour=FAINT, dash=""):
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="{colour}" stroke-width="1.5" marker-end="url(#head)"{dashed}/>'


def all_reduce(left, right, y, words):
    """A bar across both ranks."""
    return (f'<rect x="{left - BOX_W / 2}" y="{y}" width="{right - left + BOX_W}" height="30" rx="5" fill="{ORANGE}"/>' + text((left + right) / 2, y + 20, words, 13, "#ffffff", weight="bold"))


def panel(left, title, dropped):
    right = left + 190
    parts = [text((left + right) / 2, 40, title, 16, weight="bold")]
    for x, rank in ((left, "i"), (right, "j")):
        parts += [text(x, 66, f"rank {rank}", 12, FAINT), text(x, 92, "x", 14), arrow(x, 98, x, 116), box(x, 118, f"norm, heads of {rank}"), arrow(x, 152, x, 170), box(x, 172, f"W_O: P_{rank}")]
        if dropped:
            side = x - 92 if rank == "i" else x + 92
            edge = x - BOX_W / 2 if rank == "i" else x + BOX_W / 2
            parts += [arrow(x, 206, x, 266), box(x, 268, f"u = x + P_{rank} + b", GREEN), arrow(x, 302, x, 320),
                      f'<polyline points="{edge},189 {side},189 {side},435 {edge},435" fill="none" stroke="{GREEN}" stroke-width="1.5" marker-end="url(#head)"/>']
        else:
            parts += [arrow(x, 206, x, 222), arrow(x, 252, x, 266), box(x, 268, "u = x + ΣP + b", GREEN), arrow(x, 302, x, 320)]
        parts += [box(x, 322, "norm, up, act."), arrow(x, 356, x, 370), box(x, 372, f"W_down: Z_{rank}"), arrow(x, 406, x, 416) if not dropped else arrow(x, 406, x, 418)]
        last = "x + Σ(P + Z) + b + d" if dropped else "u + ΣZ + d"
        parts += [arrow(x, 452 if not dropped else 454, x, 468), box(x, 470, last, GREEN), arrow(x, 504, x, 522), text(x, 540, "next block", 12, FAINT)]
    if not dropped:
        parts.append(all_reduce(left, right, 222, "all-reduce ΣP"))
        parts.append(all_reduce(left, right, 420, "all-reduce ΣZ"))
    else:
        parts += [f'<rect x="{left - BOX_W / 2}" y="223" width="{right - left + BOX_W}" height="26" rx="5" fill="#ffffff" stroke="{ORANGE}" stroke-dasharray="5 4"/>',
                  text((left + right) / 2, 240, "no all-reduce: each MLP sees its own P only", 12, ORANGE)]
        parts.append(all_reduce(left, right, 420, "all-reduce Σ(P + Z)"))
    return parts


def main():
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img" aria-label="A synchronised and a dropped block of two ranks">',
             f'<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{FAINT}"/></marker></defs>',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    parts += panel(130, "synchronised: two all-reduces", False) + panel(580, "dropped: one", True)
    parts.append(f'<line x1="450" y1="30" x2="450" y2="{HEIGHT - 30}" stroke="#e4e7eb"/>')
    print("\n".join([*parts, "</svg>"]))


if __name__ == "__main__":
    main()
