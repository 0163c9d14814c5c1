#include "kir/print.h"

#include "schedule/program.h"

namespace rlx {

std::string print(const Program& p) {
  std::string out = "program {\n";
  constexpr const char* kKinds[] = {"input", "constant", "output", "temporary"};
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    out += "  b" + std::to_string(b) + ": " + kKinds[static_cast<std::size_t>(p.buffers[b].kind)] +
           " " + text(p.graph.type(p.buffers[b].value)) + " of %" +
           std::to_string(p.buffers[b].value.index) + "\n";
  for (std::size_t k = 0; k < p.steps.size(); ++k) {
    const Step& s = p.steps[k];
    out += "  step " + std::to_string(k) + " " + s.label + "(";
    for (std::size_t b = 0; b < s.buffers.size(); ++b)
      out += (b ? ", b" : "b") + std::to_string(s.buffers[b]);
    out += ") -> b" + std::to_string(s.written);
    if (s.inPlace >= 0)
      out += " in place of b" + std::to_string(s.buffers[static_cast<std::size_t>(s.inPlace)]);
    if (s.finished) out += " rows " + s.grid[0].text();
    if (!s.native) {
      out += " grid [" + s.grid[0].text() + ", " + s.grid[1].text() + ", " + s.grid[2].text() + "]";
      for (std::size_t d = 0; d < s.params.size(); ++d)
        out += (d ? ", p" : " with p") + std::to_string(d) + " = " + s.params[d].text();
    }
    out += "\n";
    if (!s.native || s.finished) out += kir::print(s.kernel);
  }
  for (const Chain& c : p.chains)
    out += "  chain " + std::to_string(c.first) + " to " + std::to_string(c.last) + " over " +
           text(Shape(c.over.begin(), c.over.end())) + "\n";
  return out + "}\n";
}

}  // namespace rlx
