package io.unitycatalog.server.utils;

/** The version that the server shows. Its own build generates this class. */
public final class VersionUtils {
  public static final String VERSION = "0.6.0";

  private VersionUtils() {}
}
