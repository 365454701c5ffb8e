// Ponder asks for this file; nobody asks this server.
import { Hono } from "hono";

export default new Hono();
