// Structs of NVIDIA's elements with C++ containers, filled as they fill them: nvds_analytics_meta.h, nvdspreprocess_meta.h.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

struct AnalyticsObject {
  std::vector<std::string> roi, oc, lc;
  std::string dir;
  unsigned unique_id;
  std::string status;
};

struct AnalyticsFrame {
  std::unordered_map<std::string, bool> oc;
  std::unordered_map<std::string, unsigned> roi;
  std::unordered_map<std::string, uint64_t> current, cumulative;
  unsigned unique_id;
  std::unordered_map<int, unsigned> count;
};

struct Roi {
  float box[4];
  uint8_t rest[96];
  unsigned polygon[8][2];
  void *converted;
  void *frame;
  double scale[4];
  void *classifiers;
  void *users;
  void *object;
};

struct Tensor {
  void *data;
  uint64_t size;
  std::vector<int> shape;
  int type;
  std::string name;
  unsigned gpu_id;
  void *priv;
  unsigned meta_id;
  int keep_aspect;
};

struct Preprocess {
  std::vector<uint64_t> targets;
  Tensor *tensor;
  std::vector<Roi> rois;
  void *priv;
};

static_assert(sizeof(AnalyticsObject) == 144 && sizeof(AnalyticsFrame) == 288, "nvds_analytics_meta.h");
static_assert(sizeof(Roi) == 248 && sizeof(Tensor) == 104 && sizeof(Preprocess) == 64, "nvdspreprocess_meta.h");

extern "C" {
void *analytics_object() {
  return new AnalyticsObject{{"door", "a region with a name that is longer than sixteen bytes"}, {}, {"exit"}, "north", 7, "ok"};
}

void *analytics_frame() {
  auto *frame = new AnalyticsFrame{{{"hall", true}, {"door", false}}, {}, {{"exit", 2}}, {{"exit", 1ull << 40}}, 9, {{-1, 3}, {2, 4}}};
  for (int i = 0; i < 100; i++)
    frame->roi["region " + std::to_string(i)] = i;
  return frame;
}

void *preprocess(void *frame, void *object) {
  Roi first{}, second{};
  first.box[0] = 1, first.box[3] = 4, first.frame = frame;
  second.box[1] = 2, second.frame = frame, second.object = object;
  auto *tensor = new Tensor{new float[24](), 96, {2, 3, 2, 2}, 0, "images", 0, nullptr, 5, 0};
  return new Preprocess{{1}, tensor, {first, second}, nullptr};
}
}
