// Reads nvdsanalytics' structs as a C++ application does: look-ups, iteration, copies, and additions of its own.
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

struct AnalyticsObject {
  std::vector<std::string> roiStatus, ocStatus, lcStatus;
  std::string dirStatus;
  unsigned unique_id;
  std::string objStatus;
};

struct AnalyticsFrame {
  std::unordered_map<std::string, bool> ocStatus;
  std::unordered_map<std::string, unsigned> objInROIcnt;
  std::unordered_map<std::string, uint64_t> objLCCurrCnt, objLCCumCnt;
  unsigned unique_id;
  std::unordered_map<int, unsigned> objCnt;
};

template <class Map> static void put(std::ostringstream &out, const Map &map) {
  std::map<typename Map::key_type, typename Map::mapped_type> sorted(map.begin(), map.end());
  for (const auto &entry : sorted) {
    auto found = map.find(entry.first);
    out << entry.first << '=' << (found == map.end() ? -1 : (long long)found->second) << ',';
  }
  out << '/' << map.size() << ' ';
}

static size_t give(const std::ostringstream &out, char *text, size_t size) {
  std::string all = out.str();
  strncpy(text, all.c_str(), size);
  return all.size();
}

extern "C" {
size_t read_frame(const void *data, char *text, size_t size) {
  const AnalyticsFrame copy = *static_cast<const AnalyticsFrame *>(data);
  std::ostringstream out;
  for (const AnalyticsFrame *frame : {static_cast<const AnalyticsFrame *>(data), &copy}) {
    put(out, frame->ocStatus);
    put(out, frame->objInROIcnt);
    put(out, frame->objLCCurrCnt);
    put(out, frame->objLCCumCnt);
    put(out, frame->objCnt);
    out << frame->unique_id << '\n';
  }
  return give(out, text, size);
}

// Adds entries until the maps have many buckets, and takes some away.
void extend_frame(void *data, int count) {
  auto *frame = static_cast<AnalyticsFrame *>(data);
  for (int i = 0; i < count; i++) {
    std::string key = "an added key with a long name " + std::to_string(i);
    frame->objLCCumCnt[key] = i;
    frame->ocStatus[key] = true;
    frame->objCnt[1000 + i] = i;
  }
  frame->ocStatus.erase("an added key with a long name 0");
  frame->objCnt.erase(1000);
}

size_t read_object(const void *data, char *text, size_t size) {
  const AnalyticsObject copy = *static_cast<const AnalyticsObject *>(data);
  std::ostringstream out;
  for (const auto *list : {&copy.roiStatus, &copy.ocStatus, &copy.lcStatus}) {
    for (const auto &name : *list)
      out << name << ',';
    out << '/' << list->size() << ' ';
  }
  out << '[' << copy.dirStatus << "][" << copy.objStatus << ']' << copy.unique_id;
  return give(out, text, size);
}

void extend_object(void *data) {
  auto *object = static_cast<AnalyticsObject *>(data);
  for (int i = 0; i < 20; i++)
    object->lcStatus.push_back("a line with a name that is long " + std::to_string(i));
  object->objStatus += " and more text than fits into the string itself";
}
}
