#include "model/load.h"

#include "base/file.h"
#include "import/onnx.h"
#include "model/bert.h"

namespace rlx {

Result<Graph> loadModel(const std::string& path) {
  switch (pathKind(path)) {
    case PathKind::Missing: return Error(Errc::NotFound, "no such file or folder: " + path);
    case PathKind::Other: return Error(Errc::Io, path + " is neither a file nor a folder");
    case PathKind::Folder:
      if (pathKind(joinPath(path, "config.json")) == PathKind::File)
        return loadBert(path, BertHead::HiddenState);
      return Error(Errc::BadFile,
                   path + ": a model folder needs config.json and model.safetensors");
    case PathKind::File: break;
  }
  auto loaded = [&]() -> Result<Graph> {
    if (path.ends_with(".onnx")) return importOnnx(path);
    RLX_TRY(const auto file, MappedFile::open(path));
    if (path.ends_with(".rlx")) return parseGraph(file->text());
    if (file->text().substr(0, 5) == "RLXG1") return decodeGraph(file->bytes());
    return Error(Errc::Unsupported, "unknown model format")
        .hint("formats: .onnx, a folder with config.json and model.safetensors, .rlx");
  }();
  if (!loaded) return std::move(loaded).error().note("loading " + path);
  return loaded;
}

}  // namespace rlx
