//! Figures inside a page: in the page's colours, as wide as there is room.

/// The colours of figures, and what they are called in the page's style.
const COLORS: [(&str, &str); 8] = [
    ("#000000", "var(--ink)"),
    ("black", "var(--ink)"),
    ("#222222", "var(--ink)"),
    ("white", "none"),
    ("#cccccc", "var(--grid)"),
    ("#777777", "var(--muted)"),
    ("#0077bb", "var(--baseline)"),
    ("#cc3311", "var(--nesterov)"),
];

/// A picture as it stands in a page: scaled, coloured, with names of its own and a description.
pub(super) fn inline(svg: &str, name: &str, title: &str) -> String {
    let mut svg = svg.replace("kuva-clip-", &format!("{name}-clip-"));
    for (color, variable) in COLORS {
        for attribute in ["fill", "stroke"] {
            for color in [color.to_string(), color.to_uppercase()] {
                svg = svg.replace(&format!("{attribute}=\"{color}\""), &format!("{attribute}=\"{variable}\""));
            }
        }
    }
    // width="W" height="H" of the root become a view box.
    let size = |name: &str| {
        let start = svg.find(&format!(" {name}=\""))? + name.len() + 3;
        Some((start, start + svg[start..].find('"')?))
    };
    let (Some((w0, w1)), Some((h0, h1))) = (size("width"), size("height")) else { return svg };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\"{}",
        title.replace('"', "&quot;"),
        &svg[w0..w1],
        &svg[h0..h1],
        &svg[h1 + 1..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_takes_the_colours_and_the_width_of_the_page() {
        let svg = r##"<svg xmlns="x" width="560" height="420" fill="black"><rect width="100%" fill="white" /><g clip-path="url(#kuva-clip-0)" stroke="#0077BB"/></svg>"##;
        assert_eq!(
            inline(svg, "a", "A \"b\""),
            r##"<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="A &quot;b&quot;" viewBox="0 0 560 420" fill="var(--ink)"><rect width="100%" fill="none" /><g clip-path="url(#a-clip-0)" stroke="var(--baseline)"/></svg>"##
        );
    }
}
