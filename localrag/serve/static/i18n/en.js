import ask from "./en/ask.js";
import documents from "./en/documents.js";
import graph from "./en/graph.js";
import reports from "./en/reports.js";
import shell from "./en/shell.js";
import status from "./en/status.js";
import tables from "./en/tables.js";

export default { ...shell, ...ask, ...documents, ...graph, ...reports, ...status, ...tables };
