import ask from "./zh/ask.js";
import documents from "./zh/documents.js";
import graph from "./zh/graph.js";
import reports from "./zh/reports.js";
import shell from "./zh/shell.js";
import status from "./zh/status.js";
import tables from "./zh/tables.js";

export default { ...shell, ...ask, ...documents, ...graph, ...reports, ...status, ...tables };
