//! Graphs as SVG: layers from left to right, a box for each resource, lines for what it reads.
//!
//! Whatever a resource reads is in a layer before its own. A line over several layers bends in
//! each of them, so that it goes between the boxes and not through them.

use deltaplane_graph::{Node, NodeIndex};

use super::tree::{Drawing, notes};

/// Pixels.
const LINE: usize = 18;
const LETTER: usize = 8;
const PAD: usize = 12;
const GAP: usize = 20;
const BETWEEN: usize = 72;
const MARGIN: usize = 24;
/// Of a note so many letters are shown; all of it is in a tooltip.
const SHOWN: usize = 40;
/// With more lines than these, those over several layers go straight.
const MAX_BENDS: usize = 5_000;

const STYLE: &str = "\
<style>\
.box{fill:#f6f8fa;stroke:#57606a}\
.ready{fill:#dafbe1;stroke:#1a7f37}\
.apply{fill:#ddf4ff;stroke:#0969da}\
.blocked,.waiting,.missing,.not-ready,.ending{fill:#fff8c5;stroke:#9a6700}\
.failed,.taken{fill:#ffebe9;stroke:#cf222e}\
.excluded{fill:#ffffff;stroke:#8c959f;stroke-dasharray:4}\
.id{font-weight:bold}\
.note{fill:#57606a}\
.edge{fill:none;stroke:#57606a;stroke-width:1.5;marker-end:url(#arrow)}\
text{font-family:monospace;font-size:13px;fill:#1f2328}\
</style>\
<defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" \
markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"#57606a\"/></marker></defs>\n";

/// A box, or a bend of a line.
struct Vertex {
    layer: usize,
    /// Those of the layer before that lead to it.
    before: Vec<usize>,
    width: usize,
    height: usize,
    x: usize,
    y: usize,
}

/// A box's texts.
struct Label {
    class: String,
    lines: Vec<(&'static str, String)>,
    /// All that is shown when one points at it.
    tip: String,
}

/// Where everything is.
struct Layout {
    vertices: Vec<Vertex>,
    /// The vertices that a line goes through, from box to box.
    edges: Vec<Vec<usize>>,
    width: usize,
    height: usize,
}

/// One below the other.
pub(super) fn draw(drawings: &[Drawing<'_>]) -> String {
    let mut body = String::new();
    let (mut width, mut height) = (0, MARGIN);
    for drawing in drawings {
        let labels = drawing.graph.indexed();
        let labels: Vec<Label> = labels
            .map(|(index, node)| Label::of(drawing, index, node))
            .collect();
        let layout = Layout::of(drawing.graph.nodes(), &labels);
        let head = drawing.head();
        body.push_str(&format!(
            "<g transform=\"translate({MARGIN} {height})\">\n<text class=\"id\" y=\"{LINE}\">{}</text>\n",
            escaped(&head)
        ));
        body.push_str(&format!("<g transform=\"translate(0 {})\">\n", LINE + GAP));
        body.push_str(&layout.text(&labels));
        body.push_str("</g>\n</g>\n");
        width = width.max(layout.width).max(head.chars().count() * LETTER);
        height += LINE + GAP + layout.height + MARGIN;
    }
    let width = width + 2 * MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n{STYLE}<rect width=\"{width}\" height=\"{height}\" \
         fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

// === impl Label ===

impl Label {
    fn of(drawing: &Drawing<'_>, index: NodeIndex, node: &Node) -> Self {
        let notes: Vec<String> = notes(node)
            .into_iter()
            .map(|(word, expression)| format!("{word} {expression}").trim_end().to_owned())
            .collect();
        let state = drawing.state(index);
        let mut tip = vec![format!("{}: {}", node.id(), node.gvk())];
        tip.extend(notes.iter().cloned());
        let mut lines = vec![
            ("id", node.id().to_owned()),
            ("kind", node.gvk().to_string()),
        ];
        lines.extend(notes.iter().map(|note| ("note", shortened(note))));
        let class = match &state {
            Some(state) => format!("box {}", state.word.replace(' ', "-")),
            None => "box".to_owned(),
        };
        if let Some(state) = state {
            lines.push(("state", state.word.to_owned()));
            tip.push(format!("{} {}", state.word, state.why));
        }
        Self {
            class,
            lines,
            tip: tip.join("\n"),
        }
    }

    fn width(&self) -> usize {
        let widths = self.lines.iter().map(|(_, line)| line.chars().count());
        widths.max().unwrap_or(0) * LETTER + 2 * PAD
    }

    fn height(&self) -> usize {
        self.lines.len() * LINE + PAD
    }

    fn text(&self, at: &Vertex) -> String {
        let Vertex {
            x,
            y,
            width,
            height,
            ..
        } = at;
        let mut text = format!(
            "<g><title>{}</title><rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
             height=\"{height}\" rx=\"6\"/>",
            escaped(&self.tip),
            self.class
        );
        for (number, (class, line)) in self.lines.iter().enumerate() {
            let (x, y) = (x + PAD, y + (number + 1) * LINE);
            text.push_str(&format!(
                "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>",
                escaped(line)
            ));
        }
        text.push_str("</g>\n");
        text
    }
}

// === impl Layout ===

impl Layout {
    fn of(nodes: &[Node], labels: &[Label]) -> Self {
        let mut layout = Self {
            vertices: Vec::new(),
            edges: Vec::new(),
            width: 0,
            height: 0,
        };
        for (node, label) in nodes.iter().zip(labels) {
            // Dependencies come before their dependents.
            let on = node.depends_on().iter();
            let on = on.map(|on| layout.vertices[on.get()].layer + 1);
            let layer = on.max().unwrap_or(0);
            layout.vertices.push(Vertex {
                layer,
                before: Vec::new(),
                width: label.width(),
                height: label.height(),
                x: 0,
                y: 0,
            });
        }
        layout.connect(nodes);
        let layers = layout.order();
        layout.place(&layers);
        layout
    }

    /// Lines from what is read to what reads it.
    fn connect(&mut self, nodes: &[Node]) {
        for (to, node) in nodes.iter().enumerate() {
            for from in node.depends_on() {
                let from = from.get();
                let mut way = vec![from];
                let inner = self.vertices[from].layer + 1..self.vertices[to].layer;
                for layer in inner {
                    if self.vertices.len() >= nodes.len() + MAX_BENDS {
                        break;
                    }
                    let last = way[way.len() - 1];
                    way.push(self.vertices.len());
                    self.vertices.push(Vertex {
                        layer,
                        before: vec![last],
                        width: 0,
                        height: LINE,
                        x: 0,
                        y: 0,
                    });
                }
                let last = way[way.len() - 1];
                self.vertices[to].before.push(last);
                way.push(to);
                self.edges.push(way);
            }
        }
    }

    /// The layers; in each, what comes from above is above.
    fn order(&self) -> Vec<Vec<usize>> {
        let count = self.vertices.iter().map(|vertex| vertex.layer + 1).max();
        let mut layers: Vec<Vec<usize>> = vec![Vec::new(); count.unwrap_or(0)];
        for (index, vertex) in self.vertices.iter().enumerate() {
            layers[vertex.layer].push(index);
        }
        let mut position = vec![0_usize; self.vertices.len()];
        for layer in &mut layers {
            layer.sort_by_cached_key(|index| {
                let before = &self.vertices[*index].before;
                let sum: usize = before.iter().map(|before| position[*before]).sum();
                // In thousandths, so that it is a number that can be compared.
                (1000 * sum / before.len().max(1), *index)
            });
            for (place, index) in layer.iter().enumerate() {
                position[*index] = place;
            }
        }
        layers
    }

    fn place(&mut self, layers: &[Vec<usize>]) {
        let tall = |layer: &Vec<usize>| {
            let heights = layer.iter().map(|index| self.vertices[*index].height + GAP);
            heights.sum::<usize>().saturating_sub(GAP)
        };
        let heights: Vec<usize> = layers.iter().map(tall).collect();
        self.height = heights.iter().copied().max().unwrap_or(0);
        let mut x = 0;
        for (layer, height) in layers.iter().zip(heights) {
            let widths = layer.iter().map(|index| self.vertices[*index].width);
            let width = widths.max().unwrap_or(0);
            let mut y = (self.height - height) / 2;
            for index in layer {
                let vertex = &mut self.vertices[*index];
                (vertex.x, vertex.y) = (x, y);
                // What is in one layer is as wide, bends too.
                vertex.width = width;
                y += vertex.height + GAP;
            }
            self.width = x + width;
            x += width + BETWEEN;
        }
    }

    fn text(&self, labels: &[Label]) -> String {
        let edges = self.edges.iter().map(|way| self.edge(way));
        let boxes = labels.iter().zip(&self.vertices);
        let boxes = boxes.map(|(label, vertex)| label.text(vertex));
        edges.chain(boxes).collect()
    }

    fn edge(&self, way: &[usize]) -> String {
        let mut path = String::new();
        for pair in way.windows(2) {
            let (from, to) = (&self.vertices[pair[0]], &self.vertices[pair[1]]);
            let (x, y) = (from.x + from.width, from.y + from.height / 2);
            let (to_x, to_y) = (to.x, to.y + to.height / 2);
            let middle = (x + to_x) / 2;
            path.push_str(&match path.is_empty() {
                true => format!("M{x} {y}"),
                false => format!("L{x} {y}"),
            });
            path.push_str(&format!("C{middle} {y} {middle} {to_y} {to_x} {to_y}"));
        }
        format!("<path class=\"edge\" d=\"{path}\"/>\n")
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
