target_link_libraries(${target} PUBLIC CLI11::CLI11 nlohmann_json::nlohmann_json)
