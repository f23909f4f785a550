#include "tools/python/bindings/bindings.hpp"

namespace orrery::python {

py::object to_python(const sim::Node& node) {
  using Kind = sim::Node::Kind;
  switch (node.kind()) {
    case Kind::null:
      return py::none();
    case Kind::boolean:
      return py::bool_(node.as_boolean());
    case Kind::integer:
      return py::int_(node.as_integer());
    case Kind::real:
      return py::float_(node.as_number());
    case Kind::string:
      return py::str(node.as_string());
    case Kind::array: {
      py::list list;
      for (const sim::Node& item : node.items()) list.append(to_python(item));
      return list;
    }
    case Kind::object:
      break;
  }
  py::dict dict;
  for (const auto& [key, value] : node.members()) dict[py::str(key)] = to_python(value);
  return dict;
}

}  // namespace orrery::python
