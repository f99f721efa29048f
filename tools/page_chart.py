"""A line chart in SVG, for figures that come from several commands: x logarithmic, y linear, a legend at each line's end."""

import math
from xml.sax.saxutils import escape

COLOURS = ["#1b6ca8", "#c4572e", "#3b8f5a", "#7a4fa3", "#8a6d1d", "#555555"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 360, 70, 150, 70, 50


def text(x, y, words, size=12, anchor="start", colour="#222222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def apart(ends, least=15):
    """Labels' heights, none nearer than `least` to the one above."""
    out, last = {}, -math.inf
    for name, y in sorted(ends.items(), key=lambda item: item[1]):
        last = max(y, last + least)
        out[name] = last
    return out


def line_chart(title, subtitle, x_label, y_label, series, x_names, level=None):
    """`series`: name -> [(x, y)]; `x_names`: x -> what to write there; `level`: (y, name) of a line to compare with."""
    xs, ys = list(x_names), [y for points in series.values() for _, y in points] + ([level[0]] if level else [])
    low, high = min(0, *ys), 1.1 * max(ys)
    wide = math.log(max(xs) / min(xs)) or 1

    def at(x, y):
        return (LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / min(xs)) / wide,
                HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', text(LEFT, 26, title, 16), text(LEFT, 46, subtitle, 11, colour="#555555")]
    step = 10 ** math.floor(math.log10(high - low)) / 5
    while (high - low) / step > 8:
        step *= 2
    for i in range(math.ceil(low / step), math.floor(high / step) + 1):
        (x0, y), (x1, _) = at(min(xs), i * step), at(max(xs), i * step)
        parts += [f'<line x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>', text(x0 - 8, y + 4, f"{i * step:.3g}", 11, "end")]
    for x, name in x_names.items():
        parts.append(text(at(x, low)[0], HEIGHT - BOTTOM + 18, name, 11, "middle"))
    parts += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, 12, "middle"), text(LEFT - 40, TOP - 8, y_label)]
    ends = {name: at(*points[-1])[1] for name, points in series.items()}
    if level:
        (x0, y), (x1, _) = at(min(xs), level[0]), at(max(xs), level[0])
        parts.append(f'<line x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}" stroke="#888888" stroke-dasharray="5 4"/>')
        ends[level[1]] = y
    heights = apart(ends)
    for colour, (name, points) in zip(COLOURS, series.items()):
        path = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in points)
        parts += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
        parts += ['<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>'.format(*at(*point), colour) for point in points]
        parts.append(text(WIDTH - RIGHT + 10, heights[name] + 4, name, 12, colour=colour))
    if level:
        parts.append(text(WIDTH - RIGHT + 10, heights[level[1]] + 4, level[1], 11, colour="#888888"))
    return "\n".join([*parts, "</svg>"]) + "\n"
