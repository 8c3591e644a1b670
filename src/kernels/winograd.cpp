#include "winograd.h"

#include <cstdlib>
#include <cstring>

namespace mg {

bool winograd_wanted() {
  const char* said = std::getenv("MINIGLUON_WINOGRAD");
  return said == nullptr || std::strcmp(said, "0") != 0;
}

bool winograd_may(const ConvGeometry& g) {
  return winograd_wanted() && g.kh == 3 && g.kw == 3 && g.step_y == 1 && g.step_x == 1 &&
         g.dilate_y == 1 && g.dilate_x == 1 && g.pad_y <= 2 && g.pad_x <= 2 && g.channels % 16 == 0 &&
         g.filters % 16 == 0 && g.channels >= 32 && g.filters >= 32;
}

}  // namespace mg
